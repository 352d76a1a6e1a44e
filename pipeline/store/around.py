"""SQL that reads messages for ranking: all of a scope, or those around what was found."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, Row, text

from pipeline.store.scope import Scope
from pipeline.store.vectors import literal
from schemas.vectors import EmbeddingSpace, Vector


# How a message is read for ranking: with the query's lexemes in it, and its cosine where it has a vector.
def _columns(space: EmbeddingSpace | None) -> str:
    cosine = "CAST(NULL AS float8)"
    if space is not None:
        size = int(space.dimensions)
        cosine = f"1 - (v.embedding::halfvec({size}) <=> CAST(:query AS halfvec({size})))"
    return f"""
        m.id, m.external_id, m.sender_id, coalesce(nullif(m.sender_name, ''), m.sender_id) AS speaker, m.role,
        m.content, m.sent_at, m.position, coalesce(length(m.tsv), 0) AS size,
        (SELECT jsonb_object_agg(t.lexeme, cardinality(t.positions)) FROM unnest(m.tsv) t
            WHERE t.lexeme = ANY(:lexemes)) AS terms,
        {cosine} AS cosine
    """


def _vectors(space: EmbeddingSpace | None) -> str:
    if space is None:
        return ""
    return f"""LEFT JOIN message_vectors v
        ON v.tenant_id = m.tenant_id AND v.message_id = m.id AND v.space_id = {int(space.id or 0)}"""


def all_messages(
    connection: Connection,
    scope: Scope,
    words: Sequence[str],
    space: EmbeddingSpace | None,
    query: Vector | None,
) -> Sequence[Row[Any]]:
    """Every message of a scope for ranking, with the session it lies in (0: not placed yet)."""
    seen = space if query is not None else None
    return connection.execute(
        text(f"""
            SELECT s.id AS session_id, {_columns(seen)}
            FROM conversation_sessions s
            JOIN messages m ON m.tenant_id = s.tenant_id AND m.chat_id = s.chat_id
                AND m.session_key = s.session_key AND m.sent_at BETWEEN s.started_at AND s.ended_at
            {_vectors(seen)}
            WHERE s.chat_id = :chat AND (CAST(:key AS text) IS NULL OR s.session_key = :key)
                AND s.status <> 'merged'
                AND NOT EXISTS (SELECT 1 FROM arrivals a WHERE a.tenant_id = m.tenant_id AND a.message_id = m.id)
            UNION ALL
            SELECT 0, {_columns(seen)}
            FROM arrivals a JOIN messages m ON m.tenant_id = a.tenant_id AND m.id = a.message_id
            {_vectors(seen)}
            WHERE a.chat_id = :chat AND (CAST(:key AS text) IS NULL OR m.session_key = :key)
        """),
        {**scope.given(), "lexemes": list(words), "query": literal(query) if query is not None else None},
    ).all()


def around(
    connection: Connection,
    scope: Scope,
    ids: Sequence[int],
    reach: int,
    words: Sequence[str],
    space: EmbeddingSpace | None,
    query: Vector | None,
) -> Sequence[Row[Any]]:
    """These messages and up to `reach` on either side within their sessions, as `all_messages` gives them."""
    seen = space if query is not None else None
    return connection.execute(
        text(f"""
            WITH found AS (
                SELECT m.id, m.sent_at, m.session_key, s.id AS session_id, s.started_at, s.ended_at
                FROM messages m LEFT JOIN LATERAL (
                    SELECT s.id, s.started_at, s.ended_at FROM conversation_sessions s
                    WHERE s.chat_id = m.chat_id AND s.session_key = m.session_key AND s.status <> 'merged'
                        AND s.started_at <= m.sent_at
                    ORDER BY s.started_at DESC LIMIT 1) s ON s.ended_at >= m.sent_at
                WHERE m.id = ANY(:ids) AND m.chat_id = :chat
            ), wanted AS (
                SELECT id, coalesce(session_id, 0) AS session_id FROM found
                UNION
                SELECT n.id, f.session_id FROM found f CROSS JOIN LATERAL (
                    (SELECT n.id FROM messages n WHERE n.chat_id = :chat AND n.session_key = f.session_key
                        AND n.sent_at BETWEEN f.started_at AND f.sent_at
                        ORDER BY n.sent_at DESC, n.id DESC LIMIT :side)
                    UNION ALL
                    (SELECT n.id FROM messages n WHERE n.chat_id = :chat AND n.session_key = f.session_key
                        AND n.sent_at BETWEEN f.sent_at AND f.ended_at
                        ORDER BY n.sent_at, n.id LIMIT :side)) n
                WHERE f.session_id IS NOT NULL
            )
            SELECT wanted.session_id, {_columns(seen)}
            FROM wanted JOIN messages m ON m.id = wanted.id {_vectors(seen)}
        """),
        {
            **scope.given(),
            "ids": list(ids),
            "side": reach + 2,
            "lexemes": list(words),
            "query": literal(query) if query is not None else None,
        },
    ).all()
