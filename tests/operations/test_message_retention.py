"""Messages go when their time is up, and what was made of them stays: summaries, facts, and that they are gone."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from pipeline.ingest import accept, session_ranges
from pipeline.ingest.accept import Accepted, MessageLimits
from pipeline.jobs import runner
from pipeline.operations import backfill
from pipeline.operations.backfill_kinds import Current
from pipeline.operations.retention import Retention, prune, retention_of
from pipeline.operations.sweep import sweep
from pipeline.store.connections.database import Database
from schemas.backfills import BackfillRequest
from schemas.messages import MessageIn
from schemas.settings import Settings
from tests.conftest import POLICY, SESSION_POLICY, TENANT, message
from tests.harness.pipeline import CHAT, learns, place, rows, run, summarizer

SETTLE = timedelta(minutes=10)
STATES = "SELECT status, failure_reason, summary_text IS NOT NULL FROM conversation_sessions ORDER BY id"


@pytest.fixture
def keep() -> Retention:
    """What was sent over a month ago goes."""
    return retention_of(Settings(_env_file=None, retention_days=30))


@pytest.fixture
def few() -> Retention:
    """The newest four messages of a chat stay."""
    return retention_of(Settings(_env_file=None, retention_messages_per_chat=4))


def boat(start: float = 0) -> list[MessageIn]:
    """A decision that somebody will ask for, and talk about something else."""
    said = [
        "We decided to sell the boat to Beatriz for 4000 euros.",
        "Agreed, the boat is sold to Beatriz.",
        "Bot, remember that my sister lives in Porto.",
        *(f"the boiler shows error E{number}" for number in range(5)),
    ]
    return [message(start + n, content, id=f"b{start:g}-{n}") for n, content in enumerate(said)]


def time_passes(database: Database) -> None:
    """Everything that waits is due."""
    rows(database, "UPDATE jobs SET due_at = now() WHERE due_at IS NOT NULL")


def all_made(database: Database) -> None:
    """Every session is summarized and learned from."""
    time_passes(database)
    run(database, "summarize", summarizer(database))
    run(database, "extract", learns(database))


def stored_and_made(database: Database) -> None:
    accept.accept(database, TENANT, CHAT, boat())
    place(database)
    all_made(database)


def test_an_old_history_that_is_imported_is_summarized_and_learned_from_before_it_goes(
    database: Database, keep: Retention, few: Retention
) -> None:
    # Given an import whose chat has not settled yet
    accept.accept(database, TENANT, CHAT, boat(), settle=SETTLE)
    place(database)
    # When it is pruned by the hour, then it waits
    assert not any(prune(database, TENANT, keep, dry_run=True).values())
    for limit in (keep, few):
        assert not any(prune(database, TENANT, limit).values())
    # until it is summarized and learned from
    time_passes(database)
    run(database, "summarize", summarizer(database))
    assert not any(prune(database, TENANT, keep).values())
    run(database, "extract", learns(database))
    assert prune(database, TENANT, keep)["messages_by_age"] == 8
    assert rows(database, STATES) == [("summarized", None, True)]
    assert "Beatriz" in str(rows(database, "SELECT summary_text FROM conversation_sessions"))
    assert "Porto" in str(rows(database, "SELECT content FROM memories"))


def test_a_session_that_goes_on_keeps_its_messages_and_those_before_it_go(
    database: Database, few: Retention
) -> None:
    # Given a session of a month ago, all made of it, and one of eight messages that goes on
    stored_and_made(database)
    now = datetime.now(UTC)
    going_on = [
        each.model_copy(update={"sent_at": now - timedelta(seconds=60 - n)})
        for n, each in enumerate(boat(100))
    ]
    accept.accept(database, TENANT, CHAT, going_on)
    place(database)
    # When the newest four are kept, then those of the other session go, and no others
    assert prune(database, TENANT, few, batch=3)["messages_by_count"] == 8
    assert rows(database, "SELECT count(*) FROM messages WHERE external_id LIKE 'b100-%'") == [(8,)]
    # When it has come to its end
    sweep(database, replace(SESSION_POLICY, gap=timedelta(seconds=1)), 5)
    assert prune(database, TENANT, few)["messages_by_count"] == 0
    all_made(database)
    assert prune(database, TENANT, few)["messages_by_count"] == 4


@pytest.mark.parametrize(
    "because",
    [
        "UPDATE jobs SET due_at = NULL, dead_at = now() WHERE kind <> 'ingest'",
        "UPDATE messages SET received_at = received_at - interval '8 days'",
    ],
    ids=["given up", "a week is over"],
)
def test_messages_wait_neither_for_what_was_given_up_nor_for_longer_than_a_week(
    database: Database, keep: Retention, because: str
) -> None:
    accept.accept(database, TENANT, CHAT, boat())
    place(database)
    assert prune(database, TENANT, keep)["messages_by_age"] == 0
    rows(database, because)
    assert prune(database, TENANT, keep)["messages_by_age"] == 8


# Summaries


SUMMARIES = "SELECT status, summary_text || decisions FROM conversation_sessions"


def the_summary(database: Database) -> str:
    ((status, summary),) = rows(database, SUMMARIES)
    assert status == "summarized"
    return str(summary)


def test_a_late_message_does_not_make_a_summary_forget_what_has_been_pruned(
    database: Database, few: Retention
) -> None:
    stored_and_made(database)
    assert prune(database, TENANT, few)["messages_by_count"] == 4
    accept.accept(database, TENANT, CHAT, [message(2.5, "The plumber is called Joaquim.", id="late")])
    place(database)
    all_made(database)
    assert "Beatriz" in the_summary(database)
    assert "Joaquim" in the_summary(database)


def test_a_new_version_of_summaries_keeps_those_of_sessions_that_were_pruned(
    database: Database, few: Retention
) -> None:
    stored_and_made(database)
    prune(database, TENANT, few)
    # When all summaries are to be made again
    current = Current(rules=SESSION_POLICY, summary_version=2, min_messages=4)
    backfill.start(database, TENANT, BackfillRequest(kind="summarize"), current)
    for _ in range(4):
        time_passes(database)
        runner.run(database, "backfill", backfill.backfiller(database, current), POLICY)
        run(database, "summarize", summarizer(database, 2))
    # Then the pruned session is done, too, and its summary says what it said
    assert rows(database, "SELECT state, raised FROM backfills") == [("completed", 1)]
    assert backfill.plan(database, TENANT, BackfillRequest(kind="summarize"), current).missing == 0
    assert "Beatriz" in the_summary(database)


# What comes again

BY_AGE, BY_COUNT = MessageLimits(age=timedelta(days=30)), MessageLimits(per_chat=4)


@pytest.mark.parametrize(
    ("settle", "limits"), [(None, BY_AGE), (SETTLE, BY_COUNT)], ids=["live by age", "imported by count"]
)
def test_an_export_that_has_grown_brings_only_what_is_new(
    database: Database,
    keep: Retention,
    few: Retention,
    settle: timedelta | None,
    limits: MessageLimits,
) -> None:
    # Given a history that was imported and pruned
    accept.accept(database, TENANT, CHAT, boat(), settle=settle, limits=limits)
    place(database)
    all_made(database)
    pruned = 8 if limits is BY_AGE else 4
    assert sum(prune(database, TENANT, keep if limits is BY_AGE else few).values()) == pruned
    made = "SELECT id, revision, message_count, summary_text FROM conversation_sessions ORDER BY id"
    before = rows(database, made)
    # When a longer export of the same chat is imported, and the same once more
    now = datetime.now(UTC) - timedelta(hours=1)
    new = [message(0, "The boiler is fixed.", id="new").model_copy(update={"sent_at": now})]
    grown = [*boat(), message(10_000, "Who has the key?", id="old and new"), *new]
    for again in (False, True):
        accepted = accept.accept(database, TENANT, CHAT, grown, settle=settle, limits=limits)
        place(database)
        # Then what was pruned stays away, and the rest is stored once
        there = len(grown) - pruned
        fresh = 0 if again else 2
        assert accepted == Accepted(new=fresh, duplicates=there - fresh, kept_out=pruned)
    assert rows(database, made)[: len(before)] == before
    assert rows(database, "SELECT message_count FROM chats") == [(there,)]


def test_with_a_longer_gap_a_session_that_has_lost_messages_takes_in_none_of_the_others(
    database: Database, few: Retention
) -> None:
    # Given three sessions, of which the first has lost most of its messages
    stored_and_made(database)
    accept.accept(database, TENANT, CHAT, [message(50), message(200)])
    place(database)
    prune(database, TENANT, few)
    assert rows(database, "SELECT count(*) FROM messages") == [(4,)]
    ranges = (
        "SELECT id, message_count, started_at, ended_at FROM conversation_sessions WHERE merged_into IS NULL"
    )
    before = rows(database, f"{ranges} ORDER BY id")
    assert [count for _, count, _, _ in before] == [8, 1, 1]
    # When the gap grows so that what is left of it would reach the second one
    with database.tenant(TENANT) as connection:
        longer = replace(SESSION_POLICY, gap=timedelta(minutes=60))
        session_ranges.sessionize_anew(connection, TENANT, CHAT.chat_id, longer)
    # Then each message is in the session that it was in
    assert rows(database, f"{ranges} ORDER BY id") == before
