"""The verdict of a run finds each way in which a database can be wrong, and nothing in one that is right."""

from collections.abc import Iterator

import psycopg
import pytest

from ops.dev.chaos import run as chaos
from ops.local.embedded.postgres import EmbeddedPostgres
from pipeline.clients.deterministic import DeterministicEmbedder
from pipeline.enrich import embed
from pipeline.ingest import accept
from pipeline.ingest.sessionize import SessionPolicy
from pipeline.store.connections.database import Database
from schemas.messages import ChatIn
from schemas.settings import Settings
from tests.conftest import POLICY, TENANT, Templates, message
from tests.harness.contexts import do_all
from tests.harness.pipeline import learns, run

# in one session of three hours' talk, and one after a long pause
SAID = [
    message(minute, f"number {minute} and the harbor. Bot, call me {'Porto' if minute < 400 else 'Faro'}.")
    for minute in (0, 10, 20, 25, 400, 410, 420, 425)
]
# what was done has no row any more
WORK = (
    "INSERT INTO jobs (tenant_id, kind, key, due_at, claimed, dead_at) "
    "SELECT tenant_id, 'embed', 'message:' || id"
)
ORIGINALS = {(TENANT, "test:1", m.external_id): m for m in SAID}


def fill(database: Database) -> None:
    """Do everything."""
    accept.accept(database, TENANT, ChatIn(chat_id="test:1"), SAID)
    do_all(database, SessionPolicy.of(Settings(_env_file=None, summarize_debounce_seconds=0)), POLICY)
    for _ in range(2):
        run(database, "extract", learns(database), POLICY)
        run(database, "embed", embed.embedder(database, DeterministicEmbedder()), POLICY)


@pytest.fixture
def template(templates: Templates) -> str:
    return templates("all_done", fill)


@pytest.fixture
def right(postgres: EmbeddedPostgres, database_name: str) -> Iterator[psycopg.Connection]:
    """A database in which everything was done, as the superuser sees it."""
    with psycopg.connect(postgres.superuser_dsn(database_name), autocommit=True) as connection:
        yield connection


def judge(connection: psycopg.Connection, rules: SessionPolicy) -> chaos.Verdict:
    return chaos.judge(connection, rules, ORIGINALS, ORIGINALS)


HARMS = [
    ("DELETE FROM messages WHERE external_id = 'm10'", "accepted and not stored"),
    ("UPDATE messages SET content = 'else' WHERE external_id = 'm10'", "nobody sent so"),
    ("UPDATE messages SET sent_at = sent_at + interval '1 s'", "nobody sent so"),
    (f"{WORK}, now(), NULL, NULL FROM messages", "still due or leased"),
    (f"{WORK}, NULL, 1, NULL FROM messages", "still due or leased"),
    (f"{WORK}, NULL, NULL, now() FROM messages", "dead without a reason"),
    ("UPDATE jobs SET dead_at = now(), last_error = 'x' WHERE kind = 'ingest'", "placing given up"),
    (
        "INSERT INTO arrivals (tenant_id, chat_id, message_id) SELECT tenant_id, chat_id, id FROM messages",
        "placed",
    ),
    ("UPDATE conversation_sessions SET status = 'open'", "without an end"),
    ("UPDATE conversation_sessions SET revision = revision + 1", "earlier revision"),
    ("UPDATE conversation_sessions SET status = 'failed'", "failed without a reason"),
    (
        "DELETE FROM message_vectors WHERE sent_at = (SELECT min(sent_at) FROM messages)",
        "exactly one vector",
    ),
    ("DELETE FROM session_vectors", "exactly one vector"),
    (
        "UPDATE message_vectors SET embedding = (embedding::vector - embedding::vector)::halfvec",
        "vectors that are none",
    ),
    ("UPDATE chats SET message_count = message_count + 1", "counters drifted"),
    ("UPDATE daily_counters SET value = value + 1", "accepted messages drifted"),
    (
        "INSERT INTO backfills (tenant_id, kind, filter, batch_size, state) "
        "VALUES ('default', 'embed', '{}', 100, 'running')",
        "backfills not completed",
    ),
    (
        "INSERT INTO forget_receipts (tenant_id, kind, subject, subject_hash, until) "
        "VALUES ('default', 'user', '{}', 'x', now())",
        "forgetting not finished",
    ),
    ("UPDATE conversation_sessions SET facts_revision = 0", "learned from at an earlier revision"),
    ("DELETE FROM memory_evidence", "without any evidence"),
    ("UPDATE memory_evidence SET message_id = message_id + 1000", "of a message that is gone"),
    ("UPDATE conversation_sessions SET message_count = 5", "differ from the pure function"),
    ("UPDATE conversation_sessions SET participants = '{}'", "differ from the pure function"),
]
"""What is done to the database, and what is told of it."""


def test_nothing_is_found_where_everything_was_done(right: psycopg.Connection, rules: SessionPolicy) -> None:
    found = judge(right, rules)
    assert found.violations == []
    assert (len(found.stored), found.dead) == (len(SAID), 0)
    learned = "SELECT count(*) FROM memory_evidence UNION ALL SELECT count(*) FROM memory_supersessions"
    assert right.execute(learned).fetchall() == [(2,), (1,)]  # type: ignore[arg-type]


def test_every_harm_is_found(right: psycopg.Connection, rules: SessionPolicy) -> None:
    for harm, told in HARMS:
        with right.transaction(force_rollback=True):
            right.execute(harm)
            found = judge(right, rules).violations
        assert any(told in violation for violation in found), harm
    back = chaos.judge(right, rules, ORIGINALS, ORIGINALS, [(TENANT, "test:1", "m10")])
    assert back.violations == ["1 messages that are back: default test:1 m10"]
