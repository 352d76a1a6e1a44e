"""SQL that reads everything known of a person."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, Row, text

from pipeline.store.connections.statements import column, run
from pipeline.store.erasure.erasure import OF_PERSON
from pipeline.store.sessions.sessions import IN_SESSIONS
from schemas.sessions import THREAD

_MESSAGE_IDS_OF = text("SELECT id FROM messages WHERE sender_id = :sender AND chat_id = :chat ORDER BY id")
_MESSAGES = text(f"""
    SELECT id, chat_id, external_id, sender_id, sender_name, role, content, sent_at, received_at, edited_at,
        CASE WHEN starts_with(session_key, '{THREAD}') THEN '' ELSE session_key END AS session_key,
        agent_id, reply_to, thread, metadata
    FROM messages WHERE id = ANY(:ids) ORDER BY id
""")
_MEMORY_IDS_OF = text(f"SELECT id FROM memories WHERE {OF_PERSON} ORDER BY id")
_MEMORIES = text("""
    SELECT id, scope, type, content, importance, source, learned_in, created_at, expires_at, document_id, chunk_index,
        metadata
    FROM memories WHERE id = ANY(:ids) ORDER BY id
""")
_SESSION_IDS_OF = text(f"""
    SELECT id FROM conversation_sessions WHERE id IN (
        SELECT session.id FROM {IN_SESSIONS} AND m.sender_id = ANY(:senders)
        UNION SELECT session_id FROM pruned_senders WHERE sender_id = ANY(:senders))
    ORDER BY started_at, id
""")
_SESSIONS = text("""
    SELECT id, chat_id, session_key, started_at, ended_at, message_count, status, summary_text, topic_tags,
        decisions, open_questions, action_items
    FROM conversation_sessions WHERE id = ANY(:ids) ORDER BY started_at, id
""")
_QUERY_IDS_OF = text(
    "SELECT context_id FROM query_log WHERE user_id = ANY(:senders) ORDER BY asked_at, context_id"
)
_QUERIES = text("""
    SELECT context_id, chat_id, user_id, asked_at, query, answer, answered_at FROM query_log
    WHERE context_id = ANY(:ids) ORDER BY asked_at, context_id
""")
_ROLLUPS_OF = text("""
    SELECT id, chat_id, week, summary_text, topic_tags, decisions, open_questions, action_items FROM rollups
    WHERE session_ids && CAST(:sessions AS bigint[]) ORDER BY chat_id, week
""")
_ENTITIES_OF = text("""
    SELECT user_id, 'person' AS kind, array_agg(DISTINCT name ORDER BY name) AS names,
        array_agg(DISTINCT memory_id ORDER BY memory_id) AS named_in
    FROM memory_entities WHERE user_id = ANY(:senders) GROUP BY user_id ORDER BY user_id
""")


def message_ids_of(connection: Connection, sender_id: str, chat_id: str) -> list[int]:
    """Return the ids of a sender's messages in a chat, in order."""
    return column(connection, _MESSAGE_IDS_OF, sender=sender_id, chat=chat_id)


def messages(connection: Connection, ids: Sequence[int]) -> Sequence[Row[Any]]:
    """Return messages as they are exported, in the order of their ids."""
    return run(connection, _MESSAGES, ids=ids).all()


def memory_ids_of(connection: Connection, senders: Sequence[str]) -> list[UUID]:
    """Return the ids of memories that are a person's, or were before they were promoted."""
    return column(connection, _MEMORY_IDS_OF, senders=senders)


def memories(connection: Connection, ids: Sequence[UUID]) -> Sequence[Row[Any]]:
    """Return memories as they are exported, in the order of their ids."""
    return run(connection, _MEMORIES, ids=ids).all()


def session_ids_of(connection: Connection, senders: Sequence[str]) -> list[int]:
    """Return the ids of sessions that hold a person's messages, or did before retention removed them."""
    return column(connection, _SESSION_IDS_OF, senders=senders)


def sessions(connection: Connection, ids: Sequence[int]) -> Sequence[Row[Any]]:
    """Return sessions as they are exported, by their times."""
    return run(connection, _SESSIONS, ids=ids).all()


def query_ids_of(connection: Connection, senders: Sequence[str]) -> list[str]:
    """Return the ids of a person's questions, in the order of asking."""
    return column(connection, _QUERY_IDS_OF, senders=senders)


def queries(connection: Connection, ids: Sequence[str]) -> Sequence[Row[Any]]:
    """Return questions as they are exported, in the order of asking."""
    return run(connection, _QUERIES, ids=ids).all()


def entities_of(connection: Connection, senders: Sequence[str]) -> Sequence[Row[Any]]:
    """Return a person's entities with every name of theirs and the memories that name them."""
    return run(connection, _ENTITIES_OF, senders=senders).all()


def rollups_of(connection: Connection, session_ids: Sequence[int]) -> Sequence[Row[Any]]:
    """Return the rollups made of these sessions."""
    return run(connection, _ROLLUPS_OF, sessions=session_ids).all()
