"""Commands by which people act for themselves: /missed, /remember, /mydata and /forgetme.

Who asks is whom the platform names; nothing that they write names somebody else.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

from backscroll_client import calls
from backscroll_client.calls import Call

T = TypeVar("T")

ANSWER_TOKENS, ANSWER_CHARS = 800, 3500
"""Of an answer: what messengers take in one message."""
AWAY = "My memory cannot be reached now, and nothing has changed. Please try again later."
_CONFIRMED = "yes"


def read(
    text: str, chat_id: str, user_id: str, *, direct: bool = False, bot: str = ""
) -> Call[str] | str | None:
    """Return the request that a command asks for, or an answer at once; None: it is no command for this bot.

    `direct`: whether nobody else sees the answer. `bot` is the name by which commands are addressed to this bot.
    """
    word, _, rest = text.strip().partition(" ")
    name, _, addressed = word[1:].casefold().partition("@")
    rest = rest.strip()
    if word[:1] not in ("/", "!") or addressed not in ("", bot.casefold()):
        return None
    match name:
        case "missed":
            return _told(calls.digest(chat_id, user_id=user_id, budget_tokens=ANSWER_TOKENS), _missed)
        case "remember" if not rest:
            return "Say what: /remember I am allergic to nuts."
        case "remember":
            return _told(calls.remember(rest, user_id=user_id, learned_in=chat_id), _remembered)
        case "mydata" if not direct:
            return "I tell what I know of you in our direct chat only: ask me there."
        case "mydata":
            return _told(calls.about(user_id), _data)
        case "forgetme" if rest.casefold() != _CONFIRMED:
            return (
                "This deletes for good all that you wrote, here and in every other chat, and what was learned from it. "
                f"If you want that, send: /forgetme {_CONFIRMED}"
            )
        case "forgetme":
            return _told(calls.forget_user(user_id), _receipt)
    return None


def _told(call: Call[T], tell: Callable[[T], str]) -> Call[str]:
    return replace(call, read=lambda answer: tell(call.read(answer)))  # type: ignore[arg-type,return-value]


def _missed(digest: Any) -> str:
    return str(digest["text"])[:ANSWER_CHARS] or "There is nothing to tell."


def _remembered(receipt: Any) -> str:
    if receipt["outcome"] == "kept_out":
        return "I do not remember it: memory is off here or for you."
    return "I remember it."


def _data(page: Any) -> str:
    lines = [
        f"You are known here as {', '.join([page['user_id'], *page['senders']])}, in {page['chats']} chats."
    ]
    lines += ["I remember:" if page["current"] else "I remember nothing about you."]
    for number, memory in enumerate(page["current"]):
        line = f"- {memory['content']}"
        if sum(map(len, [*lines, line])) + len(lines) > ANSWER_CHARS:
            lines.append(f"… and {len(page['current']) - number} more")
            break
        lines.append(line)
    return "\n".join([*lines, "Ask the operator for everything, as a file; /forgetme deletes it."])


def _receipt(receipt: Any) -> str:
    known = "" if receipt["seen"] else " Nothing that you wrote was known."
    return (
        f"Receipt {receipt['id']}: what you wrote until now is being deleted, and is not stored again if it comes once "
        f"more. The operator can look up with this number how much it was.{known}"
    )
