"""Summaries keep up with chats that do not rest, and leave no message out."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from time import sleep

import pytest

from pipeline.enrich.summaries import summarize, summarizers
from pipeline.enrich.summaries.summarizers import ExtractiveSummarizer
from pipeline.enrich.summaries.summary_policy import SummaryPolicy
from pipeline.erasure import edits
from pipeline.ingest import accept
from pipeline.jobs import runner
from pipeline.jobs.runner import Policy
from pipeline.store.connections.database import Database
from schemas.sessions import Message, Summary
from tests.conftest import POLICY, SESSION_POLICY, TENANT, message
from tests.harness.pipeline import CHAT, place, rows, run, summarizer

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


def rolls(database: Database, client: Reading) -> runner.Handler:
    return summarize.summarizer(
        database,
        client,
        SummaryPolicy(min_messages=4, version=1, rolling_messages=ROLLING, rolling_tokens=10**6),
    )


def test_a_chat_that_never_rests_is_summarized_whole(database: Database) -> None:
    # Given a chat in which a message comes during each call, and another one before the next
    began, said = datetime.now(UTC) - timedelta(minutes=20), list[str]()
    rolling = replace(SESSION_POLICY, rolling_messages=ROLLING, rolling_tokens=10**6)

    def say(_call: int) -> None:
        at = began + timedelta(seconds=10 * len(said))
        said.append(f"s{len(said):04}")
        accept.accept(database, TENANT, CHAT, [message(0, "the boat needs paint", id=said[-1], sent_at=at)])
        place(database, rolling)

    client = Reading(say)
    for number in range(12):
        say(number)
        run(database, "summarize", rolls(database, client))
    # Then the model is asked once for so many messages, each time something is saved
    assert 3 <= len(client.calls) <= len(said) / ROLLING
    created = rows(database, "SELECT sum(value) FROM daily_counters WHERE name = 'session_summaries_created'")
    assert created == [(len(client.calls),)]
    # and what was read last goes on where the one before ended
    read = {each for call in client.calls for each in call}
    assert read == set(said[: len(read)])
    assert len(said) - len(read) <= ROLLING


@pytest.mark.parametrize("change", ["edit", "join", "split"])
def test_a_summary_of_what_has_changed_is_thrown_away(database: Database, change: str) -> None:
    said = [message(n, f"the boiler shows E{n}", session_key="k") for n in range(5)]
    accept.accept(database, TENANT, CHAT, [message(-100, session_key="k", id="before"), *said])
    place(database)
    joining = message(-50, session_key="k", id="between")
    closing = message(2, session_key="k", id="closing", closes_session=True)

    def meanwhile(_call: int) -> None:
        if change == "edit":
            edits.edit(database, TENANT, edits.NewText(CHAT.chat_id, "m2", "Beatriz", None), SESSION_POLICY)
        else:
            accept.accept(database, TENANT, CHAT, [joining if change == "join" else closing])
        place(database)

    client = Reading(meanwhile)
    rows(database, "DELETE FROM jobs WHERE kind = 'summarize' AND key = 'session:1'")
    runner.run(database, "summarize", summarizer(database, client=client), POLICY)
    assert len(client.calls) == 1
    summaries = "SELECT count(*) FROM conversation_sessions WHERE summary_text IS NOT NULL"
    assert rows(database, summaries) == [(0,)]


def test_a_lease_is_renewed_between_parts(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    # Given a session of three parts, each of which takes most of a lease
    said = [message(n, f"лодка, часть {n} 🛶", id=f"m{n:04}") for n in range(6)]
    accept.accept(database, TENANT, CHAT, said)
    place(database)
    monkeypatch.setattr(summarizers, "MESSAGES_AT_ONCE", 2)
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
    assert len(others) >= 3


def test_an_open_session_with_a_key_has_a_memory_that_says_what_it_has_been_about(database: Database) -> None:
    # Given talk in a session that a bot named, and beside it
    paced = replace(SESSION_POLICY, rolling_messages=100, named_rolling_messages=4)
    rolling = {"rolling_messages": 100, "rolling_tokens": 10**6, "named_rolling_messages": 4}
    how = SummaryPolicy(min_messages=4, version=1, session_lifetime=timedelta(minutes=60), **rolling)
    handler = summarize.summarizer(database, ExtractiveSummarizer(), how)
    now = datetime.now(UTC)

    def say(numbers: Iterable[int], what: str) -> None:
        for key in ("trip", ""):
            times = {n: now - timedelta(minutes=20 - n) for n in numbers}
            said = [
                message(0, f"{what}, part {n}", id=f"{key}{n}", session_key=key, sent_at=times[n])
                for n in times
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
