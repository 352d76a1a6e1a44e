"""What every evaluation does: fill a chat, put its questions to the bot as messages, ask for contexts, measure."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from uuid import uuid4

from sqlalchemy import text

from ops.dev.eval import precision
from ops.dev.eval.measures import BUDGETS, OURS, Answered, WayResult, measured
from ops.dev.eval.plain import PlainSearch
from ops.dev.eval.precision import PlacedMessage, recalled_text
from ops.dev.eval.samples import ChatFacts, SampleChat, SampleQuestion
from ops.dev.observe import Say
from ops.dev.shipped import Shipped
from schemas.context import Context
from schemas.messages import ChatIn, MessageIn
from schemas.payloads import ContextParameters

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


class FilledChat:
    """A sample chat that was brought in, beside plain search over the same messages."""

    def __init__(
        self, backscroll: Shipped, sample: SampleChat, facts: ChatFacts, asking: Asking, progress: Say
    ) -> None:
        self._backscroll, self._sample, self._facts, self._asking = backscroll, sample, facts, asking
        self._progress = progress
        backscroll.fill(sample.chat, sample.messages, progress)
        self._plain = None
        if asking.plain:
            progress(f"{sample.name}: plain search")
            session_of = {message.external_id: message.session for message in self._placed().values()}
            self._plain = PlainSearch(backscroll, sample, session_of)

    def answers(self) -> list[Answered]:
        """Ask every question of the chat."""
        answers = []
        for number, case in enumerate(self._sample.cases, start=1):
            self._progress(f"{self._sample.name}: question {number} of {len(self._sample.cases)}")
            answers.append(self.ask(case, self._sample.messages))
        return answers

    def ask(self, case: SampleQuestion, messages: Sequence[MessageIn]) -> Answered:
        """Put a question to the bot, by one of those who said these messages, and measure what is found and shown."""
        at = case.asked_at or self._sample.messages[-1].sent_at + AFTER
        message = asked_as_message(self._sample.chat, messages, case.question, at)
        with self._backscroll.put(self._sample.chat, message):
            placed = self._placed()
            contexts = self._contexts(case, message)
        session_of = {row.external_id: row.session for row in placed.values()}
        by_way = {OURS: measured(case, session_of, _result(contexts))}
        return Answered(
            chat=self._sample.name,
            chat_kind=self._facts.kind,
            language=self._facts.language,
            kind=case.kind,
            question=case.question,
            by_way=by_way | (self._plain.rows(case) if self._plain else {}),
            shown={
                f"{name} {budget}": value
                for budget, context in contexts.items()
                for name, value in precision.figures(context, case.evidence, placed).items()
            },
        )

    def _contexts(self, case: SampleQuestion, message: MessageIn) -> dict[int, Context]:
        options = {"profile": self._asking.profile, "parameters": self._asking.parameters}
        if self._asking.as_bots_do:
            options |= {"user_id": message.sender_id, "include_history": True}
        chat_id = self._sample.chat.chat_id
        return {budget: self._backscroll.ask(chat_id, case.question, budget, **options) for budget in BUDGETS}

    def _placed(self) -> dict[str, PlacedMessage]:
        """Return the messages of the chat by id, as contexts name them."""
        with self._backscroll.database.tenant(self._backscroll.tenant) as connection:
            rows = connection.execute(_PLACED, {"chat": self._sample.chat.chat_id})
            return {str(row[0]): PlacedMessage(*row[1:]) for row in rows}


def _result(contexts: Mapping[int, Context]) -> WayResult:
    explain = contexts[max(contexts)].explain
    if explain is None:
        raise RuntimeError("a context came without its explanation")
    return WayResult(
        ranked=[hit.external_id for hit in explain.messages if hit.external_id is not None],
        sessions=[int(hit.id) for hit in explain.sessions],
        shown={budget: recalled_text(context) for budget, context in contexts.items()},
    )
