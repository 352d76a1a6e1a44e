"""Sessions are joined and cut again with all that hangs on them, chat by chat."""

import pytest
from sqlalchemy import text

from pipeline.clients.deterministic import DeterministicEmbedder
from pipeline.enrich.vectors import embed
from pipeline.ingest import accept
from pipeline.ingest.policy import SessionPolicy
from pipeline.jobs.runner import Policy
from pipeline.operations import backfill
from pipeline.store.connections.database import Database
from pipeline.store.jobs import jobs
from schemas.backfills import BackfillRequest
from schemas.messages import ChatIn
from tests.conftest import TENANT, message
from tests.test_pipeline import current, place, rows, run

CHAT = ChatIn(chat_id="test:1")

REMEMBER = """
    INSERT INTO memories (tenant_id, id, scope, type, session_id, content, content_hash, importance, expires_at)
    VALUES (:tenant, CAST(:id AS uuid), 'session', 'preference', :session, CAST(:content AS text),
        sha256(convert_to(CAST(:content AS text), 'UTF8')),
        :importance, CAST(:expires AS timestamptz))
"""
FIRST, SECOND, OTHER, ANSWER = (f"00000000-0000-0000-0000-00000000000{n}" for n in (1, 2, 3, 4))


@pytest.fixture
def same_memory(database: Database, rules: SessionPolicy, policy: Policy) -> Database:
    """Two sessions that hold the same memory, embedded; the later one holds another one too."""
    accept.accept(database, TENANT, CHAT, [message(0), message(50)])
    place(database, rules, policy)
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
    run(database, "embed", embed.embedder(database, DeterministicEmbedder()), policy)
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


def test_a_message_joins_two_sessions_that_hold_the_same_memory(
    same_memory: Database, rules: SessionPolicy, policy: Policy
) -> None:
    accept.accept(same_memory, TENANT, CHAT, [message(25)])
    place(same_memory, rules, policy)
    assert rows(same_memory, "SELECT status, message_count FROM conversation_sessions ORDER BY id") == [
        ("closed", 3),
        ("merged", 0),
    ]
    assert rows(same_memory, "SELECT count(*) FROM arrivals") == [(0,)]
    assert kept(same_memory) == BOTH
    assert rows(same_memory, f"SELECT count(*) FROM jobs WHERE key = 'memory:{SECOND}'") == [(0,)]


def test_what_showed_the_duplicate_of_a_memory_is_found_by_the_one_that_is_kept(
    same_memory: Database, rules: SessionPolicy, policy: Policy
) -> None:
    # Given a context that showed it, what was answered, and a memory that it had replaced
    with same_memory.tenant(TENANT) as connection:
        connection.execute(
            text("""
                INSERT INTO query_log (tenant_id, context_id, chat_id, profile, asked_at, query, shown, tokens, chars,
                    used_tokens, budget, latency_ms, degraded)
                VALUES (:tenant, 'c1', 'test:1', 'p', now(), 'tea?', jsonb_build_object('memory:' || :id, 'memories'),
                    '{}', '{}', 1, 1, 1, '{}')
            """),
            {"tenant": TENANT, "id": SECOND},
        )
        connection.execute(
            text("""
                INSERT INTO memories (tenant_id, id, scope, type, content, content_hash, metadata, learned_in)
                VALUES (:tenant, CAST(:answer AS uuid), 'organization', 'qa_turn', 'Tea it is.', '\\x01',
                    jsonb_build_object('recalled', jsonb_build_array('memory:' || :id)), 'test:1')
            """),
            {"tenant": TENANT, "answer": ANSWER, "id": SECOND},
        )
    accept.accept(same_memory, TENANT, CHAT, [message(25)])
    place(same_memory, rules, policy)
    # Then all of it leads to the memory that is kept
    assert rows(same_memory, "SELECT shown FROM query_log") == [({f"memory:{FIRST}": "memories"},)]
    assert rows(same_memory, f"SELECT metadata->'recalled' FROM memories WHERE id = '{ANSWER}'") == [
        ([f"memory:{FIRST}"],)
    ]


# Cutting all chats anew


def start(database: Database, rules: SessionPolicy) -> None:
    backfill.start(database, TENANT, BackfillRequest(kind="sessionize"), current(rules))
