"""A context for a chat model: what is known as the system's, recent talk in its roles, then the question. Pure.

What people said stands as in the context's text: a day's first line under its date, every line with its time and its
speaker. What the assistant said has neither, as a model would put them before its own answers, too. In tokens no
message takes more than its line in the text and its share of what fences that.
"""

from collections.abc import Iterator, Sequence
from datetime import tzinfo
from itertools import groupby

from pipeline import assemble
from pipeline.blocks import date_of
from pipeline.fence import harmless, visible
from pipeline.prompt import Prompt
from pipeline.tokens import Count
from schemas.context import Block, ChatMessage
from schemas.sessions import Message

# Before each further line of what somebody said: none can pass for a line of somebody else's.
_INDENT = "\n  "


def chat_messages(
    ordered: Sequence[Block],
    recent: Sequence[Message],
    prompt: Prompt,
    zone: tzinfo,
    count: Count,
    *,
    alternate: bool = False,
) -> list[ChatMessage]:
    """The blocks as messages, the question last.

    With `alternate` user and assistant take turns, the user first: a run of one role is one message, with the names
    of its speakers, and what the assistant said before anybody else is told as a line of the user's.
    """
    told = [block.text for block in ordered if block.kind not in {"history", "question"}]
    system = "\n\n".join(filter(None, (*told, prompt.today)))
    history = next((block for block in ordered if block.kind == "history"), None)
    spoken = list(_spoken(history, recent, zone, count, alternate=alternate)) if history else []
    if alternate:
        runs = [(role, list(run)) for role, run in groupby(spoken, lambda message: message.role)]
        spoken = [ChatMessage(role=role, content="\n".join(one.content for one in run)) for role, run in runs]
    if alternate and spoken and spoken[-1].role == "user":
        question = f"{spoken.pop().content}\n\n{prompt.question}"
    else:
        question = f"{prompt.asker}: {prompt.query}" if prompt.asker else prompt.query
    first = [ChatMessage(role="system", content=system)] if system else []
    return [*first, *spoken, ChatMessage(role="user", content=question)]


def _spoken(
    history: Block, recent: Sequence[Message], zone: tzinfo, count: Count, *, alternate: bool
) -> Iterator[ChatMessage]:
    """The messages of the history in their roles, oldest first."""
    said = {str(message.id): message for message in recent}
    shown = [(item, said[item.id]) for item in history.items]
    days = {date_of(message.sent_at.astimezone(zone)) for _, message in shown}
    # what heading and fence take in the text is there for line breaks
    spare = history.tokens - sum(map(count, (*days, *(item.text for item, _ in shown))))
    assistants = {message.speaker for _, message in shown if message.role == "assistant"}
    day = ""
    began = not alternate
    for item, message in shown:
        line, whole = assemble.one_line(message.content), harmless(visible(message.content))
        began = began or message.role != "assistant"
        if message.role == "assistant" and began:
            name = f"{assemble.one_line(message.speaker)}: " if alternate and len(assistants) > 1 else ""
            forms = (name + whole, name + line)
        else:
            head = item.text.removesuffix(line)
            forms = (head + _INDENT.join(whole.splitlines()), item.text)
            # the newest may be cut
            forms = forms if head != item.text else (item.text, item.text)
        room = count(item.text) + max(spare, 0)
        text = next((form for form in forms if count(form) <= room), None)
        text = text if text is not None else assemble.within_tokens(forms[0], room, count)
        spare -= max(count(text) - count(item.text), 0)
        if message.role == "assistant" and began:
            yield ChatMessage(role="assistant", content=text)
            continue
        today = date_of(message.sent_at.astimezone(zone))
        yield ChatMessage(role="user", content=text if today == day else f"{today}\n{text}")
        day = today
