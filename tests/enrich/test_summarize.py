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
from schemas.settings import Settings
from tests.conftest import TENANT, message
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
def rolling(rules: SessionPolicy) -> SessionPolicy:
    """An open session is summarized every few messages."""
    return SessionPolicy(**{**rules.__dict__, "rolling_messages": ROLLING, "rolling_tokens": 10**6})


def rolls(database: Database, client: Reading) -> runner.Handler:
    return summarize.summarizer(
        database,
        client,
        SummaryPolicy(min_messages=4, version=1, rolling_messages=ROLLING, rolling_tokens=10**6),
    )


class Chat:
    """Somebody who talks right now, a message every ten seconds."""

    def __init__(self, database: Database, rules: SessionPolicy, policy: Policy) -> None:
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
def chat(database: Database, rolling: SessionPolicy, policy: Policy) -> Chat:
    return Chat(database, rolling, policy)


def stored(database: Database) -> list[tuple[object, ...]]:
    return rows(
        database,
        """SELECT summary_message_count, message_count, summary_ended_at < ended_at, summary_revision < revision, status
        FROM conversation_sessions WHERE status <> 'merged' ORDER BY id""",
    )


def test_a_summary_is_saved_although_its_chat_goes_on_meanwhile(
    database: Database, policy: Policy, chat: Chat
) -> None:
    # Given a chat in which more is said while the model works
    chat.say(ROLLING)
    client = Reading(lambda _call: chat.say(2))
    runner.run(database, "summarize", rolls(database, client), policy)
    # Then what was read is saved as what was read
    assert stored(database) == [(ROLLING, ROLLING + 2, True, True, "open")]
    assert rows(database, "SELECT kind FROM jobs WHERE key LIKE 'session:%' AND kind = 'embed'") == [
        ("embed",)
    ]


def test_a_chat_that_never_rests_is_summarized_at_its_pace_and_no_message_is_left_out(
    database: Database, policy: Policy, chat: Chat
) -> None:
    # Given a chat in which a message comes during each call, and another one before the next
    client = Reading(lambda _call: chat.say(1))
    for _ in range(24):
        chat.say(1)
        run(database, "summarize", rolls(database, client), policy)
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
def test_a_summary_of_what_has_changed_inside_meanwhile_is_thrown_away(
    database: Database, rules: SessionPolicy, policy: Policy, change: str
) -> None:
    said = [message(n, f"the boiler shows E{n}", session_key="k") for n in range(5)]
    accept.accept(database, TENANT, CHAT, [message(-100, session_key="k", id="before"), *said])
    place(database, rules, policy)

    def meanwhile(call: int) -> None:
        if call > 1:
            return
        if change == "edit":
            edits.edit(database, TENANT, CHAT.chat_id, "m2", "Beatriz", None, rules)
        elif change == "join":
            accept.accept(database, TENANT, CHAT, [message(-50, session_key="k", id="between")])
        else:
            closing = message(2, session_key="k", id="closing", closes_session=True)
            accept.accept(database, TENANT, CHAT, [closing])
        place(database, rules, policy)

    client = Reading(meanwhile)
    with database.tenant(TENANT) as connection:
        session = connection.scalar(text("SELECT max(id) FROM conversation_sessions"))
        connection.execute(
            text("UPDATE jobs SET due_at = NULL WHERE kind = 'summarize' AND key <> :key"),
            {"key": f"session:{session}"},
        )
    runner.run(database, "summarize", summarizer(database, client=client), policy)
    assert len(client.calls) == 1
    assert rows(database, "SELECT count(*) FROM conversation_sessions WHERE summary_text IS NOT NULL") == [
        (0,)
    ]


# Equal times


def test_a_session_that_takes_longer_than_its_lease_is_nobody_elses_meanwhile(
    database: Database, rules: SessionPolicy, policy: Policy, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a session of five parts, each of which takes most of a lease
    said = [message(n, f"лодка, часть {n} 🛶", id=f"m{n:04}") for n in range(10)]
    accept.accept(database, TENANT, CHAT, said)
    place(database, rules, policy)
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


def test_a_rolling_summary_reads_what_came_in_the_very_second_of_the_one_before(
    database: Database, policy: Policy, chat: Chat
) -> None:
    client = Reading()
    chat.say(ROLLING)
    run(database, "summarize", rolls(database, client), policy)
    # the clock of the platform counts whole seconds: these are of the time of the last one that was read
    chat.say(1, late=10)
    chat.say(ROLLING)
    run(database, "summarize", rolls(database, client), policy)
    assert f"s{ROLLING:04}" in client.calls[1]
    assert {each for call in client.calls for each in call} == {f"s{n:04}" for n in range(chat.said)}


def test_an_open_session_with_a_key_has_a_memory_that_says_what_it_has_been_about(
    database: Database, rules: SessionPolicy, policy: Policy
) -> None:
    # Given talk in a session that a bot named, in a thread, and beside them
    paced = SessionPolicy(**{**rules.__dict__, "rolling_messages": 100, "named_rolling_messages": 4})
    handler = summarize.summarizer(
        *(database, ExtractiveSummarizer()),
        SummaryPolicy(
            min_messages=4,
            version=1,
            rolling_messages=100,
            rolling_tokens=10**6,
            named_rolling_messages=4,
            session_lifetime=timedelta(minutes=60),
        ),
    )
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
        place(database, paced, policy)
        run(database, "summarize", handler, policy)

    say(range(3), "the boat needs paint")
    assert rows(database, "SELECT 1 FROM memories") == []
    say(range(3, 5), "the boat needs paint")
    ((first, content, scope, type_, learned_in, left),) = rows(
        database,
        "SELECT id, content, scope, type, learned_in, round(extract(epoch FROM expires_at - now()) / 60) FROM memories",
    )
    assert (scope, type_, learned_in, int(left)) == ("session", "summary", CHAT.chat_id, 60)
    assert "paint" in content
    # Then it says more as the session goes on, and stays one memory
    say(range(5, 10), "the mast needs varnish")
    ((second, later),) = rows(database, "SELECT id, content FROM memories")
    assert second == first
    assert later != content
    # and goes with a message that it may be about
    edits.delete(database, TENANT, CHAT.chat_id, "trip7", paced)
    assert rows(database, "SELECT 1 FROM memories") == []


def test_how_often_a_session_with_a_key_is_summarized_is_a_setting_of_its_own() -> None:
    settings = Settings(_env_file=None, memory_summary_turns=6)
    assert SessionPolicy.of(settings).named_rolling_messages == 12
    often = settings.model_copy(update={"session_rolling_messages": 8})
    assert SessionPolicy.of(often).named_rolling_messages == 8


# Against the rest of the chat
