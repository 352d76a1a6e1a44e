"""SQL that reads everything known of a person."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, Row, text

from schemas.sessions import THREAD

_MESSAGE_IDS_OF = text("SELECT id FROM messages WHERE sender_id = :sender AND chat_id = :chat ORDER BY id")
_MEMORY_IDS_OF = text("SELECT id FROM memories WHERE user_id = ANY(:senders) ORDER BY id")
_QUERY_IDS_OF = text(
    "SELECT context_id FROM query_log WHERE user_id = ANY(:senders) ORDER BY asked_at, context_id"
)


def message_ids_of(connection: Connection, sender_id: str, chat_id: str) -> list[int]:
    """The ids of what a sender has said in a chat, in their order."""
    return list(connection.scalars(_MESSAGE_IDS_OF, {"sender": sender_id, "chat": chat_id}))


_MESSAGES = text(f"""
    SELECT id, chat_id, external_id, sender_id, sender_name, role, content, sent_at, received_at, edited_at,
        CASE WHEN starts_with(session_key, '{THREAD}') THEN '' ELSE session_key END AS session_key,
        agent_id, reply_to, thread, metadata
    FROM messages WHERE id = ANY(:ids) ORDER BY id
""")


def messages(connection: Connection, ids: Sequence[int]) -> Sequence[Row[Any]]:
    """These messages as they are exported, in the order of their ids."""
    return connection.execute(_MESSAGES, {"ids": list(ids)}).all()


def memory_ids_of(connection: Connection, senders: Sequence[str]) -> list[UUID]:
    """The ids of what is remembered of a person."""
    return list(connection.scalars(_MEMORY_IDS_OF, {"senders": list(senders)}))


_MEMORY_IDS_MADE_OF = text("""
    SELECT id FROM memories
    WHERE id = ANY(ARRAY(SELECT memories_with(NULL, CAST(:items AS text[]), '{}')))
        AND source_message_ids && CAST(:messages AS bigint[])
""")


def memory_ids_made_of(connection: Connection, message_ids: Sequence[int]) -> list[UUID]:
    """The ids of memories that were made of these messages."""
    return list(
        connection.scalars(
            _MEMORY_IDS_MADE_OF,
            {"items": [f"message:{each}" for each in message_ids], "messages": list(message_ids)},
        )
    )


_MEMORIES = text("""
    SELECT id, scope, type, content, importance, source, learned_in, created_at, expires_at, metadata
    FROM memories WHERE id = ANY(:ids) ORDER BY id
""")


def memories(connection: Connection, ids: Sequence[UUID]) -> Sequence[Row[Any]]:
    """These memories as they are exported, in the order of their ids."""
    return connection.execute(_MEMORIES, {"ids": list(ids)}).all()


_SESSION_IDS_OF = text("""
    SELECT id FROM conversation_sessions s
    WHERE status <> 'merged' AND participants && CAST(:names AS text[])
        AND (EXISTS (SELECT 1 FROM messages m WHERE m.chat_id = s.chat_id
                AND m.session_key = s.session_key AND m.sent_at BETWEEN s.started_at AND s.ended_at
                AND m.sender_id = ANY(:senders))
            OR NOT EXISTS (SELECT 1 FROM messages m WHERE m.chat_id = s.chat_id
                AND m.session_key = s.session_key AND m.sent_at BETWEEN s.started_at AND s.ended_at))
    ORDER BY started_at, id
""")


def session_ids_of(connection: Connection, senders: Sequence[str], names: Sequence[str]) -> list[int]:
    """The ids of sessions that hold a person's messages, or did before they were pruned and still name them."""
    return list(connection.scalars(_SESSION_IDS_OF, {"senders": list(senders), "names": list(names)}))


_SESSIONS = text("""
    SELECT id, chat_id, session_key, started_at, ended_at, message_count, status, summary_text, topic_tags,
        decisions, open_questions, action_items
    FROM conversation_sessions WHERE id = ANY(:ids) ORDER BY started_at, id
""")


def sessions(connection: Connection, ids: Sequence[int]) -> Sequence[Row[Any]]:
    """These sessions as they are exported, by their times."""
    return connection.execute(_SESSIONS, {"ids": list(ids)}).all()


def query_ids_of(connection: Connection, senders: Sequence[str]) -> list[str]:
    """The ids of what a person has asked, in the order of asking."""
    return list(connection.scalars(_QUERY_IDS_OF, {"senders": list(senders)}))


_QUERIES = text("""
    SELECT context_id, chat_id, user_id, asked_at, query, answer, answered_at FROM query_log
    WHERE context_id = ANY(:ids) ORDER BY asked_at, context_id
""")


def queries(connection: Connection, ids: Sequence[str]) -> Sequence[Row[Any]]:
    """These questions as they are exported, in the order of asking."""
    return connection.execute(_QUERIES, {"ids": list(ids)}).all()
