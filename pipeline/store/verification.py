"""SQL of looking for what was forgotten: by its text and by its vector."""

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, text

from pipeline.store import vectors


def longest(connection: Connection, ids: Sequence[int], limit: int) -> Sequence[Row[Any]]:
    """The longest of these messages with their vectors, to look for when they are gone."""
    if not vectors.exist(connection):
        vector = "NULL::integer AS space_id, NULL::integer AS size, NULL::text AS embedding"
        join = ""
    else:
        vector = "v.space_id, v.size, v.embedding"
        join = """LEFT JOIN LATERAL (SELECT space_id, vector_dims(embedding) AS size, embedding::text AS embedding
            FROM message_vectors WHERE tenant_id = m.tenant_id AND message_id = m.id LIMIT 1) v ON true"""
    return connection.execute(
        text(f"""
            SELECT m.content, {vector} FROM messages m {join} WHERE m.id = ANY(:ids)
            ORDER BY length(m.content) DESC, m.id LIMIT :limit
        """),
        {"ids": list(ids), "limit": limit},
    ).all()


_COUNT_TEXT = text("""
    SELECT (SELECT count(*) FROM conversation_sessions
            WHERE position(:content IN coalesce(summary_text, '') || search_text) > 0)
        + (SELECT count(*) FROM memories WHERE position(:content IN content) > 0)
        + (SELECT count(*) FROM pending_changes WHERE position(:content IN content) > 0)
        + (SELECT count(*) FROM query_log
            WHERE position(:content IN concat_ws(' ', query, answer)) > 0)
        + (SELECT count(*) FROM jobs WHERE position(:content IN last_error) > 0)
        + (SELECT count(*) FROM arrivals WHERE position(:content IN error) > 0)
        + (SELECT count(*) FROM conversation_sessions WHERE position(:content IN failure_reason) > 0)
""")


def count_text(connection: Connection, content: str) -> int:
    """In how many rows of derived or waiting data a text stands word for word."""
    return int(
        connection.execute(
            text("""
                SELECT (SELECT count(*) FROM conversation_sessions
                        WHERE position(:content IN coalesce(summary_text, '') || search_text) > 0)
                    + (SELECT count(*) FROM memories WHERE position(:content IN content) > 0)
                    + (SELECT count(*) FROM pending_changes WHERE position(:content IN content) > 0)
                    + (SELECT count(*) FROM query_log
                        WHERE position(:content IN concat_ws(' ', query, answer)) > 0)
                    + (SELECT count(*) FROM jobs WHERE position(:content IN last_error) > 0)
                    + (SELECT count(*) FROM arrivals WHERE position(:content IN error) > 0)
                    + (SELECT count(*) FROM refused_payloads WHERE position(:json IN payload || error) > 0)
                    + (SELECT count(*) FROM conversation_sessions WHERE position(:content IN failure_reason) > 0)
            """),
            {"content": content, "json": json.dumps(content)[1:-1]},
        ).scalar_one()
    )


def count_vector(
    connection: Connection, space_id: int, size: int, embedding: str, *, chat_id: str | None, until: datetime
) -> int:
    """How many messages until then, in one chat or anywhere, and how many memories have this very vector."""
    same = f"space_id = {int(space_id)} AND {vectors.distance(size, given=':embedding')} < 0.0001"
    return int(
        connection.execute(
            text(f"""
                SELECT (SELECT count(*) FROM message_vectors WHERE {same} AND sent_at <= :until
                        AND (CAST(:chat AS text) IS NULL OR chat_id = :chat))
                    + (SELECT count(*) FROM memory_vectors WHERE {same})
            """),
            {"embedding": embedding, "chat": chat_id, "until": until},
        ).scalar_one()
    )
