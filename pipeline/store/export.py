"""SQL that reads everything known of a person."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, Row, text


def messages_of(connection: Connection, senders: Sequence[str], after: int, limit: int) -> Sequence[Row[Any]]:
    """A person's messages with ids above `after`, in the order of their ids."""
    return connection.execute(
        text("""
            SELECT id, chat_id, external_id, sender_id, sender_name, role, content, sent_at, received_at, edited_at,
                session_key, agent_id, metadata
            FROM messages WHERE sender_id = ANY(:senders) AND id > :after ORDER BY id LIMIT :limit
        """),
        {"senders": list(senders), "after": after, "limit": limit},
    ).all()


def memories_of(connection: Connection, senders: Sequence[str]) -> Sequence[Row[Any]]:
    """What is remembered of a person, or was made of their messages."""
    return connection.execute(
        text("""
            SELECT id, scope, type, content, importance, source, learned_in, created_at, expires_at, metadata
            FROM memories WHERE user_id = ANY(:senders) OR source_message_ids && ARRAY(
                SELECT id FROM messages WHERE sender_id = ANY(:senders))
            ORDER BY id
        """),
        {"senders": list(senders)},
    ).all()


def sessions_of(connection: Connection, senders: Sequence[str], names: Sequence[str]) -> Sequence[Row[Any]]:
    """Sessions that hold a person's messages, or did before they were pruned and still name them."""
    return connection.execute(
        text("""
            SELECT id, chat_id, session_key, started_at, ended_at, message_count, status, summary_text, topic_tags,
                decisions, open_questions, action_items
            FROM conversation_sessions s
            WHERE status <> 'merged' AND participants && CAST(:names AS text[])
                AND (EXISTS (SELECT 1 FROM messages m WHERE m.chat_id = s.chat_id
                        AND m.session_key = s.session_key AND m.sent_at BETWEEN s.started_at AND s.ended_at
                        AND m.sender_id = ANY(:senders))
                    OR NOT EXISTS (SELECT 1 FROM messages m WHERE m.chat_id = s.chat_id
                        AND m.session_key = s.session_key AND m.sent_at BETWEEN s.started_at AND s.ended_at))
            ORDER BY started_at, id
        """),
        {"senders": list(senders), "names": list(names)},
    ).all()


def queries_of(connection: Connection, senders: Sequence[str]) -> Sequence[Row[Any]]:
    """What a person asked, and was answered, as far as it is recorded."""
    return connection.execute(
        text("""
            SELECT context_id, chat_id, user_id, asked_at, query, answer, answered_at FROM query_log
            WHERE user_id = ANY(:senders) ORDER BY asked_at, context_id
        """),
        {"senders": list(senders)},
    ).all()
