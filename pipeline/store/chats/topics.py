"""SQL that counts the topics of a chat's sessions by period."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, Row, text

from pipeline.store.connections.statements import run

_BY_PERIOD = text("""
    WITH named AS (
        SELECT date_trunc(:by, s.started_at AT TIME ZONE :zone)::date AS begins, s.id, s.started_at, s.ended_at, topic
        FROM conversation_sessions s CROSS JOIN LATERAL jsonb_array_elements_text(s.topic_tags) AS topic
        WHERE s.chat_id = :chat AND s.status <> 'merged'
    ), counted AS (
        SELECT begins, (array_agg(topic ORDER BY started_at DESC))[1] AS topic, count(DISTINCT id) AS sessions,
            min(started_at) AS first_at, max(ended_at) AS last_at
        FROM named GROUP BY begins, lower(topic)
    ), ranked AS (
        SELECT *, row_number() OVER (PARTITION BY begins ORDER BY sessions DESC, last_at DESC, topic) AS place,
            dense_rank() OVER (ORDER BY begins DESC) AS period
        FROM counted
    )
    SELECT begins, topic, sessions, first_at, last_at FROM ranked
    WHERE place <= :limit AND period <= :periods ORDER BY begins DESC, place
""")


def by_period(
    connection: Connection, chat_id: str, *, by: str, zone: str, periods: int, limit: int
) -> Sequence[Row[Any]]:
    """Return a chat's topics by period, the latest first, the most frequent first in each."""
    values = {"by": by, "zone": zone, "periods": periods, "limit": limit}
    return run(connection, _BY_PERIOD, chat=chat_id, **values).all()
