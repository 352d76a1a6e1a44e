"""What every evaluation does: fill a chat, put its questions to the bot as messages, ask for contexts, measure."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4

from sqlalchemy import text

from ops.dev import shipped
from ops.dev.eval import measures
from ops.dev.eval.measures import OURS, Answered, WayResult
from ops.dev.eval.plain import PlainSearch
from ops.dev.eval.samples import SampleChat
from ops.dev.figures import Report, Say
from ops.dev.shipped import Shipped
from pipeline.recall.profiles import profile_named
from schemas.context import Context
from schemas.messages import ChatIn, MessageIn
from schemas.payloads import ContextParameters
from schemas.settings import Settings

# A question comes so long after the last message.
AFTER = timedelta(minutes=5)
_SESSIONS = text("""
    SELECT m.external_id, s.id FROM conversation_sessions s JOIN messages m
        ON m.tenant_id = s.tenant_id AND m.chat_id = s.chat_id AND m.session_key = s.session_key
        AND m.sent_at BETWEEN s.started_at AND s.ended_at
    WHERE s.chat_id = :chat AND s.status <> 'merged'
""")


@dataclass(frozen=True, kw_only=True)
class Asking:
    """How contexts are asked for."""

    profile: str = "balanced"
    parameters: ContextParameters = field(default_factory=ContextParameters)
    # by whoever put the question, with recent talk, as bots do
    as_bots_do: bool = True
    # plain search is asked beside it
    plain: bool = True


def evaluated(settings: Settings, chats: Iterable[SampleChat], asking: Asking, say: Say) -> Report:
    """Put the questions of chats in one fresh database; `details` lists each question.

    Raises `InvalidInput` for an unknown profile.
    """
    profile_named(asking.profile)
    with shipped.temporary(settings) as backscroll:
        answered = [answer for sample in chats for answer in _answers(backscroll, sample, asking, say)]
    found = {
        "profile": asking.profile,
        "parameters": asking.parameters.model_dump(exclude_none=True),
        **measures.summed_up(answered),
        "details": [asdict(answer) for answer in answered],
    }
    return Report(found=found, only_in_json=["details"])


def asked_as_message(
    chat: ChatIn, messages: Sequence[MessageIn], question: str, at: datetime | None = None
) -> MessageIn:
    """Return a question as the message that puts it to the chat's bot, by somebody of the chat.

    In a group it mentions the bot. Who asks is the one with the most messages whom the question does not name. The
    time is by default `AFTER` the last message.
    """
    counts = Counter((m.sender_id, m.sender_name) for m in messages if m.role == "user")
    by_frequency = [person for person, _ in counts.most_common()]
    folded = question.casefold()
    asker = next((who for who in by_frequency if (who[1] or "").casefold() not in folded), by_frequency[0])
    bot = next((m.sender_name for m in messages if m.role == "assistant" and m.sender_name), "bot")
    return MessageIn(
        # a new one each time: what was deleted is not taken again
        external_id=f"question-{uuid4()}",
        sender_id=asker[0],
        sender_name=asker[1],
        content=f"@{bot} {question}" if chat.kind == "group" else question,
        sent_at=at or messages[-1].sent_at + AFTER,
    )


def _answers(backscroll: Shipped, sample: SampleChat, asking: Asking, say: Say) -> Iterator[Answered]:
    """Bring a chat in, put each of its questions to the bot, and measure what is found and shown."""
    backscroll.fill(sample.chat, sample.messages, say)
    plain = PlainSearch(backscroll, sample, _sessions(backscroll, sample)) if asking.plain else None
    options: dict[str, Any] = {"profile": asking.profile, "parameters": asking.parameters}
    for number, case in enumerate(sample.cases, start=1):
        say(f"{sample.name}: question {number} of {len(sample.cases)}")
        message = asked_as_message(sample.chat, sample.messages, case.question, case.asked_at)
        if asking.as_bots_do:
            options |= {"user_id": message.sender_id, "include_history": True}
        with backscroll.put(sample.chat, message):
            session_of = _sessions(backscroll, sample)
            contexts = {
                budget: backscroll.ask(sample.chat.chat_id, case.question, budget, **options)
                for budget in measures.BUDGETS
            }
        by_way = plain.rows(case) if plain else {}
        shown = {
            f"{name} {budget}": value
            for budget, context in contexts.items()
            for name, value in measures.precision(context, measures.holding(case, session_of)).items()
        }
        yield Answered(
            chat=sample.name,
            kind=case.kind,
            question=case.question,
            by_way={OURS: measures.measured(case, session_of, _result(contexts))} | by_way,
            shown=shown,
        )


def _sessions(backscroll: Shipped, sample: SampleChat) -> dict[str, int]:
    """Return the session of each message of the chat by its external id."""
    with backscroll.database.tenant(backscroll.tenant) as connection:
        return dict(map(tuple, connection.execute(_SESSIONS, {"chat": sample.chat.chat_id})))


def _result(contexts: Mapping[int, Context]) -> WayResult:
    explain = contexts[max(contexts)].explain
    if explain is None:
        raise RuntimeError("a context came without its explanation")
    return WayResult(
        ranked=[hit.external_id for hit in explain.messages if hit.external_id is not None],
        sessions=[int(hit.id) for hit in explain.sessions],
        shown={budget: measures.recalled_text(context) for budget, context in contexts.items()},
    )
