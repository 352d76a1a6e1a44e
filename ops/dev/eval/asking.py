"""What every evaluation does: fill a chat, put its questions to the bot as messages, ask for contexts, measure."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import Any
from uuid import uuid4

from sqlalchemy import text

from ops.dev import shipped
from ops.dev.eval import measures
from ops.dev.eval.measures import OURS, Answered, PlacedMessage, WayResult
from ops.dev.eval.plain import PlainSearch
from ops.dev.eval.samples import SampleChat
from ops.dev.observe import Say
from ops.dev.shipped import Shipped
from pipeline.recall.ask.profiles import profile_named
from schemas.context import Context
from schemas.messages import ChatIn, MessageIn
from schemas.payloads import ContextParameters
from schemas.settings import Settings

# A question comes so long after the last message.
AFTER = timedelta(minutes=5)
_PLACED = text("""
    SELECT m.id, m.external_id, s.id, row_number() OVER (PARTITION BY s.id ORDER BY m.sent_at, m.id)
    FROM conversation_sessions s JOIN messages m
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


def evaluated(
    settings: Settings, chats: Iterable[SampleChat], asking: Asking, progress: Say
) -> dict[str, Any]:
    """Compute the tables of `measures.tables` in one fresh database; `details` lists each question.

    Raises `InvalidInput` for an unknown profile.
    """
    profile_named(asking.profile)
    answered: list[Answered] = []
    with shipped.temporary(settings) as backscroll:
        for sample in chats:
            answered += _answers(backscroll, sample, asking, progress)
    return {
        "profile": asking.profile,
        "parameters": asking.parameters.model_dump(exclude_none=True),
        **measures.tables(answered),
        "details": [asdict(answer) for answer in answered],
    }


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


def _answers(backscroll: Shipped, sample: SampleChat, asking: Asking, progress: Say) -> Iterator[Answered]:
    """Bring a chat in, put each of its questions to the bot, and measure what is found and shown."""
    backscroll.fill(sample.chat, sample.messages, progress)
    plain = PlainSearch(backscroll, sample, _sessions(_placed(backscroll, sample))) if asking.plain else None
    for number, case in enumerate(sample.cases, start=1):
        progress(f"{sample.name}: question {number} of {len(sample.cases)}")
        message = asked_as_message(sample.chat, sample.messages, case.question, case.asked_at)
        with backscroll.put(sample.chat, message):
            placed = _placed(backscroll, sample)
            asked = partial(backscroll.ask, sample.chat.chat_id, case.question)
            contexts = {budget: asked(budget, **_options(asking, message)) for budget in measures.BUDGETS}
        yield Answered(
            chat=sample.name,
            kind=case.kind,
            question=case.question,
            by_way={OURS: measures.measured(case, _sessions(placed), _result(contexts))}
            | (plain.rows(case) if plain else {}),
            shown={
                f"{name} {budget}": value
                for budget, context in contexts.items()
                for name, value in measures.precision(context, case.evidence, placed).items()
            },
        )


def _options(asking: Asking, message: MessageIn) -> dict[str, Any]:
    as_bots_do = {"user_id": message.sender_id, "include_history": True} if asking.as_bots_do else {}
    return {"profile": asking.profile, "parameters": asking.parameters, **as_bots_do}


def _placed(backscroll: Shipped, sample: SampleChat) -> dict[str, PlacedMessage]:
    """Return the messages of the chat by id, as contexts name them."""
    with backscroll.database.tenant(backscroll.tenant) as connection:
        rows = connection.execute(_PLACED, {"chat": sample.chat.chat_id})
        return {str(row[0]): PlacedMessage(*row[1:]) for row in rows}


def _sessions(placed: Mapping[str, PlacedMessage]) -> dict[str, int]:
    return {message.external_id: message.session for message in placed.values()}


def _result(contexts: Mapping[int, Context]) -> WayResult:
    explain = contexts[max(contexts)].explain
    if explain is None:
        raise RuntimeError("a context came without its explanation")
    return WayResult(
        ranked=[hit.external_id for hit in explain.messages if hit.external_id is not None],
        sessions=[int(hit.id) for hit in explain.sessions],
        shown={budget: measures.recalled_text(context) for budget, context in contexts.items()},
    )
