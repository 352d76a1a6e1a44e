"""Chats are placed together at a cost that does not grow with what is around them, and none holds up another."""

from collections.abc import Iterator, Sequence, Set
from contextlib import contextmanager
from datetime import timedelta

import psycopg

from pipeline.ingest import accept
from pipeline.ingest.place import placer
from pipeline.jobs import runner
from pipeline.memories import statements
from pipeline.store.connections.database import Database
from schemas.memories import MemoryIn
from schemas.messages import ChatIn
from schemas.settings import Settings
from tests.conftest import POLICY, SESSION_POLICY, TENANT, message
from tests.harness.pipeline import embed_all, place, rows

CHAT = ChatIn(chat_id="test:1")


@contextmanager
def locked(settings: Settings, chat_id: str) -> Iterator[None]:
    """Somebody else has the chat, as a deletion does."""
    with psycopg.connect(settings.database_url.get_secret_value()) as other:
        other.execute("SELECT set_config('app.tenant_id', %s, true)", (TENANT,))
        held = other.execute("SELECT 1 FROM chats WHERE chat_id = %s FOR UPDATE", (chat_id,)).fetchall()
        assert len(held) == 1
        yield


def once(database: Database) -> runner.Outcome:
    return runner.run(database, "ingest", placer(database, SESSION_POLICY), POLICY)


def test_live_messages_of_a_chat_are_placed_before_those_of_its_import(database: Database) -> None:
    accept.accept(database, TENANT, CHAT, [message(n) for n in range(600)], settle=timedelta(0))
    accept.accept(database, TENANT, CHAT, [message(9000, id="live")])
    once(database)
    assert rows(database, "SELECT count(*), min(priority) FROM arrivals") == [(101, 1)]


def test_a_locked_chat_is_put_off_and_the_others_are_placed(database: Database, settings: Settings) -> None:
    # Given five chats, one of which somebody else has
    for number in range(5):
        accept.accept(database, TENANT, ChatIn(chat_id=f"test:{number}"), [message(0)])
    with locked(settings, "test:2"):
        outcome = once(database)
        # Then four are, and the fifth has lost no attempt
        assert (outcome.claimed, outcome.failed) == (5, 0)
        assert rows(database, "SELECT chat_id FROM arrivals") == [("test:2",)]
        assert rows(
            database,
            """SELECT key, attempts, claimed, due_at > now(), last_error FROM jobs
            WHERE kind = 'ingest' AND due_at IS NOT NULL""",
        ) == [("test:2", 0, None, True, "the chat is locked by somebody else")]
    rows(database, "UPDATE jobs SET due_at = now() WHERE due_at IS NOT NULL")
    place(database)
    assert rows(database, "SELECT count(*) FROM arrivals") == [(0,)]
    assert rows(database, "SELECT DISTINCT last_error FROM jobs WHERE kind = 'ingest'") == [(None,)]


def test_a_chat_whose_claim_was_lost_takes_no_other_with_it(database: Database) -> None:
    for number in range(3):
        accept.accept(database, TENANT, ChatIn(chat_id=f"test:{number}"), [message(0)])
    handle = placer(database, SESSION_POLICY)

    def late(tenant_id: str, claims: Sequence[runner.Claim]) -> Set[str]:
        rows(database, "UPDATE jobs SET token = token + 1000 WHERE key = 'test:1'")
        return handle(tenant_id, claims)

    outcome = runner.run(database, "ingest", late, POLICY)
    assert (outcome.claimed, "embed" in outcome.follows) == (3, True)
    assert rows(database, "SELECT chat_id FROM arrivals") == [("test:1",)]


def test_a_message_joins_two_sessions_that_hold_the_same_memory(database: Database) -> None:
    # Given two sessions that hold the same memory, embedded; the later one holds another one too
    accept.accept(database, TENANT, CHAT, [message(0), message(50)])
    place(database)
    (first,), (second,) = rows(database, "SELECT id FROM conversation_sessions ORDER BY id")
    for session, content, importance, expires_at in (
        (first, "Prefers tea.", 2, "2999-01-01T00:00Z"),
        (second, "Prefers tea.", 7, None),
        (second, "Has a boat.", 3, "2999-01-01T00:00Z"),
    ):
        given = {"scope": "session", "session_id": session, "content": content, "importance": importance}
        memory = MemoryIn.model_validate(given | {"expires_at": expires_at})
        assert statements.remember(database, TENANT, memory).outcome == "new"
    embed_all(database)
    # When a message joins them
    accept.accept(database, TENANT, CHAT, [message(25)])
    place(database)
    joined = "SELECT status, message_count FROM conversation_sessions ORDER BY id"
    assert rows(database, joined) == [("closed", 3), ("merged", 0)]
    assert rows(database, "SELECT count(*) FROM arrivals") == [(0,)]
    # Then the one session holds each once, with its vector
    held = """
        SELECT m.content, m.importance, m.expires_at IS NULL, m.session_id, count(v.*)
        FROM memories m LEFT JOIN memory_vectors v ON v.memory_id = m.id GROUP BY m.tenant_id, m.id ORDER BY 1
    """
    kept = [("Has a boat.", 3.0, False, first, 1), ("Prefers tea.", 7.0, True, first, 1)]
    assert rows(database, held) == kept
