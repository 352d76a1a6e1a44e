"""Sessions are joined and cut again with all that hangs on them, chat by chat."""

import pytest
from sqlalchemy import text

from pipeline.ingest import accept
from pipeline.store.connections.database import Database
from pipeline.store.jobs import jobs
from schemas.messages import ChatIn
from tests.conftest import TENANT, message
from tests.test_pipeline import embed_all, place, rows

CHAT = ChatIn(chat_id="test:1")

REMEMBER = """
    INSERT INTO memories (tenant_id, id, scope, type, session_id, content, content_hash, importance, expires_at)
    VALUES (:tenant, CAST(:id AS uuid), 'session', 'preference', :session, CAST(:content AS text),
        sha256(convert_to(CAST(:content AS text), 'UTF8')),
        :importance, CAST(:expires AS timestamptz))
"""
FIRST, SECOND, OTHER, ANSWER = (f"00000000-0000-0000-0000-00000000000{n}" for n in (1, 2, 3, 4))


@pytest.fixture
def same_memory(database: Database) -> Database:
    """Two sessions that hold the same memory, embedded; the later one holds another one too."""
    accept.accept(database, TENANT, CHAT, [message(0), message(50)])
    place(database)
    (first,), (second,) = rows(database, "SELECT id FROM conversation_sessions ORDER BY id")
    with database.tenant(TENANT) as connection:
        for identity, session, content, importance, expires in (
            (FIRST, first, "Prefers tea.", 2, "2999-01-01"),
            (SECOND, second, "Prefers tea.", 7, None),
            (OTHER, second, "Has a boat.", 3, "2999-01-01"),
        ):
            given = {"id": identity, "session": session, "content": content, "importance": importance}
            connection.execute(text(REMEMBER), given | {"tenant": TENANT, "expires": expires})
        keys = [f"memory:{each}" for each in (FIRST, SECOND, OTHER)]
        jobs.enqueue(connection, TENANT, "embed", keys)
    embed_all(database)
    assert rows(database, "SELECT count(*) FROM memory_vectors") == [(3,)]
    return database


def kept(database: Database) -> list[tuple[object, ...]]:
    return rows(
        database,
        """SELECT m.content, m.importance, m.expires_at IS NULL, count(v.*)
        FROM memories m JOIN conversation_sessions s ON s.id = m.session_id AND s.status <> 'merged'
            LEFT JOIN memory_vectors v ON v.memory_id = m.id
        WHERE m.scope = 'session' GROUP BY 1, 2, 3 ORDER BY 1""",
    )


BOTH = [("Has a boat.", 3.0, False, 1), ("Prefers tea.", 7.0, True, 1)]


def test_a_message_joins_two_sessions_that_hold_the_same_memory(same_memory: Database) -> None:
    accept.accept(same_memory, TENANT, CHAT, [message(25)])
    place(same_memory)
    assert rows(same_memory, "SELECT status, message_count FROM conversation_sessions ORDER BY id") == [
        ("closed", 3),
        ("merged", 0),
    ]
    assert rows(same_memory, "SELECT count(*) FROM arrivals") == [(0,)]
    assert kept(same_memory) == BOTH
    assert rows(same_memory, f"SELECT count(*) FROM jobs WHERE key = 'memory:{SECOND}'") == [(0,)]
