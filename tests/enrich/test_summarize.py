"""Summaries keep up with chats that do not rest, and leave no message out."""

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from time import sleep

import pytest
from sqlalchemy import text

from pipeline.enrich.summaries import session_summary, summarize
from pipeline.enrich.summaries.summarizers import ExtractiveSummarizer
from pipeline.enrich.summaries.summary_policy import SummaryPolicy
from pipeline.erasure import edits
from pipeline.ingest import accept
from pipeline.ingest.policy import SessionPolicy
from pipeline.jobs import runner
from pipeline.jobs.runner import Policy
from pipeline.store.connections.database import Database
from schemas.messages import MessageIn
from schemas.sessions import Message, Summary
from tests.conftest import POLICY, SESSION_POLICY, TENANT, message
from tests.test_pipeline import CHAT, place, rows, run, summarizer

ROLLING = 4


class Reading(ExtractiveSummarizer):
    """Remembers which messages each call was given, and lets something happen during a call."""

    def __init__(self, meanwhile: Callable[[int], None] = lambda _call: None) -> None:
        self.calls: list[list[str]] = []
        self._meanwhile = meanwhile

    def summarize(
        self, messages: Sequence[Message], previous: Summary | None = None, **options: object
    ) -> Summary:
        self.calls.append([each.external_id for each in messages])
        self._meanwhile(len(self.calls))
        return super().summarize(messages, previous, **options)  # type: ignore[arg-type]


@pytest.fixture
def rolling() -> SessionPolicy:
    """An open session is summarized every few messages."""
    return SessionPolicy(**{**SESSION_POLICY.__dict__, "rolling_messages": ROLLING, "rolling_tokens": 10**6})


def rolls(database: Database, client: Reading) -> runner.Handler:
    return summarize.summarizer(
        database,
        client,
        SummaryPolicy(min_messages=4, version=1, rolling_messages=ROLLING, rolling_tokens=10**6),
    )


class Chat:
    """Somebody who talks right now, a message every ten seconds."""

    def __init__(
        self, database: Database, rules: SessionPolicy = SESSION_POLICY, policy: Policy = POLICY
    ) -> None:
        self._database, self._rules, self._policy = database, rules, policy
        with database.tenant(TENANT) as connection:
            self._began = connection.execute(text("SELECT now() - interval '20 min'")).scalar_one()
        self.said = 0

    def say(self, count: int, *, late: float = 0) -> None:
        """So many messages, sent so many seconds before the others."""
        said: list[MessageIn] = []
        for _ in range(count):
            at = self._began + timedelta(seconds=10 * self.said - late)
            content = f"the boat needs paint, part {self.said}"
            said.append(message(0, content, id=f"s{self.said:04}").model_copy(update={"sent_at": at}))
            self.said += 1
        accept.accept(self._database, TENANT, CHAT, said)
        place(self._database, self._rules, self._policy)


@pytest.fixture
def chat(database: Database, rolling: SessionPolicy) -> Chat:
    return Chat(database, rolling, POLICY)


def stored(database: Database) -> list[tuple[object, ...]]:
    return rows(
        database,
        """SELECT summary_message_count, message_count, summary_ended_at < ended_at, summary_revision < revision, status
        FROM conversation_sessions WHERE status <> 'merged' ORDER BY id""",
    )


def test_a_chat_that_never_rests_is_summarized_whole(database: Database, chat: Chat) -> None:
    # Given a chat in which a message comes during each call, and another one before the next
    client = Reading(lambda _call: chat.say(1))
    for _ in range(24):
        chat.say(1)
        run(database, "summarize", rolls(database, client))
    # Then the model is asked once for so many messages, each time something is saved
    assert len(client.calls) <= chat.said / ROLLING
    created = rows(database, "SELECT sum(value) FROM daily_counters WHERE name = 'session_summaries_created'")
    assert created == [(len(client.calls),)]
    assert len(client.calls) >= 5
    # and what was read last goes on where the one before ended
    read = {each for call in client.calls for each in call}
    assert read == {f"s{n:04}" for n in range(len(read))}
    assert chat.said - len(read) <= ROLLING


@pytest.mark.parametrize("change", ["edit", "join", "split"])
def test_a_summary_of_what_has_changed_is_thrown_away(database: Database, change: str) -> None:
    said = [message(n, f"the boiler shows E{n}", session_key="k") for n in range(5)]
    accept.accept(database, TENANT, CHAT, [message(-100, session_key="k", id="before"), *said])
    place(database)

    def meanwhile(call: int) -> None:
        if call > 1:
            return
        if change == "edit":
            edits.edit(database, TENANT, CHAT.chat_id, "m2", "Beatriz", None, SESSION_POLICY)
        elif change == "join":
            accept.accept(database, TENANT, CHAT, [message(-50, session_key="k", id="between")])
        else:
            closing = message(2, session_key="k", id="closing", closes_session=True)
            accept.accept(database, TENANT, CHAT, [closing])
        place(database)

    client = Reading(meanwhile)
    with database.tenant(TENANT) as connection:
        session = connection.scalar(text("SELECT max(id) FROM conversation_sessions"))
        connection.execute(
            text("UPDATE jobs SET due_at = NULL WHERE kind = 'summarize' AND key <> :key"),
            {"key": f"session:{session}"},
        )
    runner.run(database, "summarize", summarizer(database, client=client), POLICY)
    assert len(client.calls) == 1
    assert rows(database, "SELECT count(*) FROM conversation_sessions WHERE summary_text IS NOT NULL") == [
        (0,)
    ]


# Equal times


def test_a_lease_is_renewed_between_parts(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    # Given a session of five parts, each of which takes most of a lease
    said = [message(n, f"лодка, часть {n} 🛶", id=f"m{n:04}") for n in range(10)]
    accept.accept(database, TENANT, CHAT, said)
    place(database)
    monkeypatch.setattr(session_summary, "MESSAGES_AT_ONCE", 2)
    short = Policy(batch=1, lease_seconds=1, max_attempts=3)
    others: list[int] = []

    def meanwhile(_call: int) -> None:
        sleep(0.6)
        others.append(runner.run(database, "summarize", rolls(database, Reading()), short).claimed)

    how = SummaryPolicy(min_messages=4, version=1, lease_seconds=1)
    outcome = runner.run(
        database, "summarize", summarize.summarizer(database, Reading(meanwhile), how), short
    )
    assert (others, outcome.finished) == ([0] * len(others), 1)
    assert len(others) >= 5


def test_an_open_session_with_a_key_has_a_memory_that_says_what_it_has_been_about(database: Database) -> None:
    # Given talk in a session that a bot named, and beside it
    paced = SessionPolicy(**{**SESSION_POLICY.__dict__, "rolling_messages": 100, "named_rolling_messages": 4})
    rolling = {"rolling_messages": 100, "rolling_tokens": 10**6, "named_rolling_messages": 4}
    how = SummaryPolicy(min_messages=4, version=1, session_lifetime=timedelta(minutes=60), **rolling)
    handler = summarize.summarizer(database, ExtractiveSummarizer(), how)
    now = datetime.now(UTC)

    def say(numbers: Iterable[int], what: str) -> None:
        for key in ("trip", ""):
            said = [
                message(0, f"{what}, part {n}", id=f"{key}{n}", session_key=key).model_copy(
                    update={"sent_at": now - timedelta(minutes=20 - n)}
                )
                for n in numbers
            ]
            accept.accept(database, TENANT, CHAT, said)
        place(database, paced)
        run(database, "summarize", handler)

    say(range(5), "the boat needs paint")
    ((first, content, *kept),) = rows(database, "SELECT id, content, scope, type, learned_in FROM memories")
    assert kept == ["session", "summary", CHAT.chat_id]
    assert "paint" in content
    # Then it says more as the session goes on, and stays one memory
    say(range(5, 10), "the mast needs varnish")
    ((second, later),) = rows(database, "SELECT id, content FROM memories")
    assert second == first
    assert later != content
    # and goes with a message that it may be about
    edits.delete(database, TENANT, CHAT.chat_id, "trip7", paced)
    assert rows(database, "SELECT 1 FROM memories") == []
