"""SQL for the inspector's pages only: the processing of a session's messages, and people with memories.

Every statement reads what one page shows, by an index.
"""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, Row, text

from pipeline.store import vectors
from pipeline.store.connections.statements import column, run

_SPACES = text("""
    SELECT message_id, array_agg(DISTINCT space_id) AS spaces FROM message_vectors
    WHERE message_id = ANY(:ids) GROUP BY message_id
""")
_SPACES_OF_SESSION = text("SELECT DISTINCT space_id FROM session_vectors WHERE session_id = :id")
_SESSION_OF = text("""
    SELECT s.id FROM messages m JOIN conversation_sessions s ON s.tenant_id = m.tenant_id
        AND s.chat_id = m.chat_id AND s.session_key = m.session_key AND s.status <> 'merged'
        AND m.sent_at BETWEEN s.started_at AND s.ended_at
    WHERE m.id = :id LIMIT 1
""")
# by their keys, of which a kind has one each
_JOBS = text("""
    SELECT kind, key, attempts, due_at, dead_at, last_error AS error FROM jobs
    WHERE kind = ANY(:kinds) AND key = ANY(:keys) AND (due_at IS NOT NULL OR dead_at IS NOT NULL)
    ORDER BY dead_at IS NULL, kind, key
""")
_OF_SESSION = text("""
    SELECT DISTINCT m.id, m.scope, m.user_id, m.content, m.subject, m.retracted_at, EXISTS (
        SELECT 1 FROM memory_supersessions e WHERE e.tenant_id = m.tenant_id AND e.memory_id = m.id) AS is_superseded
    FROM memories m WHERE m.session_id = :id OR m.id = ANY(ARRAY(
        SELECT memory_id FROM memory_evidence WHERE session_id = :id))
    ORDER BY m.id LIMIT :limit
""")
_OWNER = text(
    "SELECT scope, user_id, coalesce(session_id, source_session_id) AS session FROM memories WHERE id = :id"
)
# one look at the index for each person, however many memories they have
_PEOPLE = text("""
    WITH RECURSIVE person AS (
        (SELECT user_id FROM memories WHERE scope = 'user' AND user_id > :after ORDER BY user_id LIMIT 1)
        UNION ALL
        SELECT (SELECT m.user_id FROM memories m WHERE m.scope = 'user' AND m.user_id > person.user_id
            ORDER BY m.user_id LIMIT 1) FROM person WHERE person.user_id IS NOT NULL
    ), listed AS (SELECT user_id FROM person WHERE user_id IS NOT NULL LIMIT :limit)
    SELECT user_id, (SELECT count(*) FROM memories m
            WHERE m.scope = 'user' AND m.user_id = listed.user_id AND m.type <> 'document') AS memories,
        (SELECT sender_name FROM messages t WHERE t.sender_id = listed.user_id AND sender_name <> '' LIMIT 1) AS name
    FROM listed
""")


def spaces_of(connection: Connection, message_ids: Sequence[int]) -> dict[int, list[int]]:
    """Return the spaces in which each of these messages has a vector."""
    if not vectors.exist(connection):
        return {}
    return {row.message_id: list(row.spaces) for row in run(connection, _SPACES, ids=list(message_ids))}


def spaces_of_session(connection: Connection, session_id: int) -> list[int]:
    """Return the spaces in which a session's summary has a vector."""
    return column(connection, _SPACES_OF_SESSION, id=session_id) if vectors.exist(connection) else []


def session_of(connection: Connection, message_id: int) -> int | None:
    """Return the session that holds a message; None if it is not placed yet, or gone."""
    return next(iter(column(connection, _SESSION_OF, id=message_id)), None)


def jobs_of(connection: Connection, kinds: Sequence[str], keys: Sequence[str]) -> Sequence[Row[Any]]:
    """Return the pending and dead jobs with these keys, dead ones first."""
    return run(connection, _JOBS, kinds=list(kinds), keys=list(keys)).all()


def memories_of_session(connection: Connection, session_id: int, limit: int) -> Sequence[Row[Any]]:
    """Return the memories learned from a session, and those that belong to it."""
    return run(connection, _OF_SESSION, id=session_id, limit=limit).all()


def owner_of_memory(connection: Connection, memory_id: str) -> Row[Any] | None:
    """Return `(scope, user_id, session)` of a memory."""
    return run(connection, _OWNER, id=memory_id).one_or_none()


def people(connection: Connection, after: str, limit: int) -> Sequence[Row[Any]]:
    """Return the people with memories, by id: `(user_id, memories, name)`."""
    return run(connection, _PEOPLE, after=after, limit=limit).all()
