"""Messages go when their time is up, and what was made of them stays: summaries, facts, and that they are gone."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import text

from pipeline.ingest import accept
from pipeline.ingest.policy import SessionPolicy
from pipeline.jobs.runner import Policy
from pipeline.operations.retention import Retention, prune, retention_of
from pipeline.operations.sweep import sweep
from pipeline.store.database import Database
from schemas.messages import MessageIn
from schemas.settings import Settings
from tests.conftest import TENANT, message
from tests.test_pipeline import CHAT, learns, place, rows, run, summarizer

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
        "My sister lives in Porto.",
        *(f"the boiler shows error E{number}" for number in range(5)),
    ]
    return [message(start + n, content, id=f"b{start:g}-{n}") for n, content in enumerate(said)]


def time_passes(database: Database) -> None:
    """Everything that waits is due."""
    with database.tenant(TENANT) as connection:
        connection.execute(text("UPDATE jobs SET due_at = now() WHERE due_at IS NOT NULL"))


def all_made(database: Database, policy: Policy) -> None:
    """Every session is summarized and learned from."""
    time_passes(database)
    run(database, "summarize", summarizer(database), policy)
    run(database, "extract", learns(database), policy)


def test_an_old_history_that_is_imported_is_summarized_and_learned_from_before_it_goes(
    database: Database, rules: SessionPolicy, policy: Policy, keep: Retention, few: Retention
) -> None:
    # Given an import whose chat has not settled yet
    accept.accept(database, TENANT, CHAT, boat(), settle=SETTLE)
    place(database, rules, policy)
    # When it is pruned by the hour, then it waits
    assert not any(prune(database, TENANT, keep, dry_run=True).values())
    for limit in (keep, few):
        assert not any(prune(database, TENANT, limit).values())
    # until it is summarized and learned from
    time_passes(database)
    run(database, "summarize", summarizer(database), policy)
    assert not any(prune(database, TENANT, keep).values())
    run(database, "extract", learns(database), policy)
    assert prune(database, TENANT, keep)["messages_by_age"] == 8
    assert rows(database, STATES) == [("summarized", None, True)]
    assert "Beatriz" in str(rows(database, "SELECT summary_text FROM conversation_sessions"))
    assert "Porto" in str(rows(database, "SELECT content FROM memories"))


def test_a_session_that_goes_on_keeps_its_messages_and_those_before_it_go(
    database: Database, rules: SessionPolicy, policy: Policy, few: Retention
) -> None:
    # Given a session of a month ago, all made of it, and one of eight messages that goes on
    accept.accept(database, TENANT, CHAT, boat())
    place(database, rules, policy)
    all_made(database, policy)
    now = datetime.now(UTC)
    going_on = [
        each.model_copy(update={"sent_at": now - timedelta(seconds=60 - n)})
        for n, each in enumerate(boat(100))
    ]
    accept.accept(database, TENANT, CHAT, going_on)
    place(database, rules, policy)
    # When the newest four are kept, then those of the other session go, and no others
    assert prune(database, TENANT, few, batch=3)["messages_by_count"] == 8
    assert rows(database, "SELECT count(*) FROM messages WHERE external_id LIKE 'b100-%'") == [(8,)]
    # When it has come to its end
    sweep(database, replace(rules, gap=timedelta(seconds=1)), 5)
    assert prune(database, TENANT, few)["messages_by_count"] == 0
    all_made(database, policy)
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
    database: Database, rules: SessionPolicy, policy: Policy, keep: Retention, because: str
) -> None:
    accept.accept(database, TENANT, CHAT, boat())
    place(database, rules, policy)
    assert prune(database, TENANT, keep)["messages_by_age"] == 0
    with database.tenant(TENANT) as connection:
        connection.execute(text(because))
    assert prune(database, TENANT, keep)["messages_by_age"] == 8


def test_messages_of_which_nothing_is_made_do_not_wait(
    database: Database, rules: SessionPolicy, policy: Policy, keep: Retention
) -> None:
    accept.accept(database, TENANT, CHAT, boat())
    place(database, replace(rules, summaries=False, facts=False), policy)
    assert prune(database, TENANT, keep)["messages_by_age"] == 8
