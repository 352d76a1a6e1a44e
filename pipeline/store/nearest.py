"""SQL of vector search: exact inside a scope, and by the HNSW index where a scope is large."""

from dataclasses import dataclass, field
from typing import Literal

from sqlalchemy import Connection, text

from pipeline.store.scope import Scope
from pipeline.store.vectors import literal
from schemas.vectors import EmbeddingSpace, Vector

# Above so many vectors in scope, and only if they are more than a tenth of all in the space, HNSW is faster.
EXACT_UP_TO = 20_000


@dataclass(frozen=True, kw_only=True)
class VectorHits:
    """What the vectors found in a scope."""

    # message ids, nearest first, with their cosine
    cosines: dict[int, float] = field(default_factory=dict)
    # of all that were compared
    mean_cosine: float = 0.0
    compared: int = 0
    search: Literal["exact", "hnsw", "off"] = "off"


def nearest(
    connection: Connection, scope: Scope, space: EmbeddingSpace, query: Vector, *, limit: int
) -> VectorHits:
    """The `limit` messages of a scope whose vectors are nearest to the query's.

    The space and its dimensions are written into the statement: as parameters they would lose the index.
    """
    space_id, size = int(space.id or 0), int(space.dimensions)
    given = {**scope.given(), "query": literal(query), "limit": limit}
    distance = f"embedding::halfvec({size}) <=> CAST(:query AS halfvec({size}))"
    inside = f"space_id = {space_id} AND chat_id = :chat" + (
        ""
        if scope.session_key is None
        else " AND message_id IN (SELECT id FROM messages WHERE chat_id = :chat AND session_key = :key)"
    )
    if scope.session_key is None and _is_large(connection, space_id, scope.chat_id):
        connection.execute(text("SET LOCAL hnsw.iterative_scan = relaxed_order"))
        rows = connection.execute(
            text(f"""
                WITH near AS MATERIALIZED (
                    SELECT message_id, {distance} AS distance FROM message_vectors WHERE {inside}
                    ORDER BY {distance} LIMIT :limit)
                SELECT message_id, 1 - distance, (SELECT avg(1 - distance) FROM near), (SELECT count(*) FROM near)
                FROM near ORDER BY distance, message_id DESC
            """),
            given,
        ).all()
        search: Literal["exact", "hnsw"] = "hnsw"
    else:
        rows = connection.execute(
            text(f"""
                WITH scope AS MATERIALIZED (
                    SELECT message_id, {distance} AS distance FROM message_vectors WHERE {inside})
                SELECT message_id, 1 - distance, (SELECT avg(1 - distance) FROM scope), (SELECT count(*) FROM scope)
                FROM scope ORDER BY distance, message_id DESC LIMIT :limit
            """),
            given,
        ).all()
        search = "exact"
    return VectorHits(
        cosines={row[0]: float(row[1]) for row in rows},
        mean_cosine=float(rows[0][2]) if rows else 0.0,
        compared=int(rows[0][3]) if rows else 0,
        search=search,
    )


def _is_large(connection: Connection, space_id: int, chat_id: str) -> bool:
    """Whether the index beats comparing all: many vectors in scope, and a good part of the space."""
    inside = connection.scalar(
        text("SELECT message_count FROM chats WHERE chat_id = :chat"), {"chat": chat_id}
    )
    if (inside or 0) <= EXACT_UP_TO:
        return False
    everywhere = connection.scalar(
        text("SELECT reltuples FROM pg_class WHERE oid = 'message_vectors'::regclass")
    )
    return bool(inside * 10 > (everywhere or 0))


def session_cosines(
    connection: Connection, scope: Scope, space: EmbeddingSpace, query: Vector
) -> dict[int, float]:
    """The cosine of every summarized session of the scope to the query."""
    size = int(space.dimensions)
    rows = connection.execute(
        text(f"""
            SELECT v.session_id, 1 - (v.embedding::halfvec({size}) <=> CAST(:query AS halfvec({size})))
            FROM session_vectors v
            JOIN conversation_sessions s ON s.tenant_id = v.tenant_id AND s.id = v.session_id
            WHERE v.space_id = {int(space.id or 0)} AND v.chat_id = :chat
                AND (CAST(:key AS text) IS NULL OR s.session_key = :key)
        """),
        {**scope.given(), "query": literal(query)},
    )
    return {row[0]: float(row[1]) for row in rows}
