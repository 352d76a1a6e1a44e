"""SQL of sessions as shown in a context, with summary and topics."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, text

from pipeline.store.connections.statements import run

_CARD = """id, session_key, started_at, ended_at, message_count, participants, summary_text, summary_model, topic_tags,
    entities"""


_CARDS = text(f"""
    SELECT {_CARD} FROM conversation_sessions WHERE id = ANY(:ids) AND status <> 'merged'
""")


_OF_TIME = text(f"""
    SELECT * FROM (
        SELECT {_CARD}
        FROM conversation_sessions
        WHERE chat_id = :chat AND (CAST(:key AS text) IS NULL OR session_key = :key) AND status <> 'merged'
            AND started_at < :until AND ended_at >= :start
        ORDER BY ended_at DESC, id DESC LIMIT :limit
    ) latest
    ORDER BY started_at, id
""")


def of_sessions(connection: Connection, session_ids: Sequence[int]) -> Sequence[Row[Any]]:
    """Return the cards of these sessions."""
    return run(connection, _CARDS, ids=session_ids).all()


def of_time(
    connection: Connection,
    chat_id: str,
    start: datetime,
    until: datetime,
    *,
    session_key: str | None = None,
    limit: int,
) -> Sequence[Row[Any]]:
    """Return the sessions of a chat, or of one key in it, that overlap this time, in order.

    Each has its summary and topics, if it is summarized. Of more than `limit` the latest are returned.
    """
    values = {"chat": chat_id, "key": session_key, "start": start, "until": until, "limit": limit}
    return run(connection, _OF_TIME, **values).all()
