"""SQL of vector search: exact inside a scope, and by the HNSW index where a chat is large and there is one.

Exact search takes time in proportion to the chat's vectors, the index takes 3 ms from every vector that is written,
of any tenant. So there is none until `backscroll doctor` has found a chat that is worth it. The documents of an
organization are searched by the same rule, in `memory_candidates`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from sqlalchemy import Connection, TextClause, text

from pipeline.store import vectors
from pipeline.store.connections.statements import run
from pipeline.store.search.filters import Scope
from pipeline.store.vectors import cosine, distance, halved, in_space
from schemas.vectors import EmbeddingSpace, Vector, VectorSearch

# HNSW is faster above this many vectors in scope, if they are more than a tenth of their table or partition.
EXACT_UP_TO = 20_000
TIMES_AS_MANY = 10
# Vectors looked at beyond a limit, so that of equally near messages of one instant all are found, or none: otherwise
# their numbers would decide, which are others wherever the chat is imported.
MAX_EQUALS = 200
# Vectors requested from the index, as a multiple of those needed: some are further chunks of one message.
EFFORT = 2

TABLE_OF_CHAT = f"""
    SELECT c.reltuples AS everywhere, i.indisvalid AS is_indexed
    FROM pg_class c LEFT JOIN pg_index i ON i.indexrelid = to_regclass(c.oid::regclass || '_space_' || {{space}})
    WHERE c.oid = {vectors.table_of(":chat")}
"""
"""SQL, with `space` for the id of a space, of the rows of the table that has a chat's vectors, and of its index."""


@dataclass(frozen=True, kw_only=True)
class VectorHits:
    """The results of a vector search."""

    # message ids, nearest first, with the cosine of their best chunk
    cosines: dict[int, float] = field(default_factory=dict)
    # of the whole scope's chunks; with HNSW of 200 at twenty places spread over its time
    mean_cosine: float = 0.0
    compared: int = 0
    search: VectorSearch = "off"


def by_index(space: EmbeddingSpace, limit: int | None = None) -> str:
    """Return SQL after WITH: the `:limit` nearest messages of a chat by the index, as `near_messages`.

    A statement that is prepared for any parameters needs `limit` itself: without a number the planner passes the index
    by.
    """
    most = ":limit" if limit is None else str(int(limit))
    away, inside = distance(space), f"{in_space(space)} AND chat_id = :chat"
    return f"""
        near AS MATERIALIZED (
            SELECT message_id, sent_at, {away} AS distance FROM message_vectors WHERE {inside}
            ORDER BY {away} LIMIT {EFFORT} * {most}
        ), times AS MATERIALIZED (
            SELECT min(sent_at) AS began, max(sent_at) AS ended FROM message_vectors WHERE {inside}
        ), sample AS MATERIALIZED (
            SELECT drawn.distance FROM times CROSS JOIN generate_series(0, 19) AS step
            CROSS JOIN LATERAL (SELECT {away} AS distance FROM message_vectors
                WHERE {inside} AND sent_at >= began + step * (ended - began) / 20
                ORDER BY sent_at LIMIT 10) AS drawn
        ), near_messages AS (
            SELECT message_id, sent_at, {cosine(space.questions, "min(distance)")} AS cosine,
                (SELECT {cosine(space.questions, "avg(distance)")} FROM sample) AS mean,
                (SELECT count(*) FROM near) AS compared
            FROM near GROUP BY message_id, sent_at ORDER BY min(distance), sent_at DESC LIMIT {most}
        )
    """


def exactly(space: EmbeddingSpace, limit: int | None = None, *, of_key: bool) -> str:
    """Return SQL after WITH: the nearest messages of a scope by comparing all, as `near_messages`.

    They are `limit`, or `:limit` without it.
    """
    keyed = "AND message_id IN (SELECT id FROM messages WHERE chat_id = :chat AND session_key = :key)"
    return f"""
        {best_chunks(space, f"chat_id = :chat {keyed if of_key else ''}", limit)}, near_messages AS MATERIALIZED (
            SELECT message_id, sent_at, {cosine(space.questions, "distance")} AS cosine,
                (SELECT mean FROM facts) AS mean, (SELECT messages FROM facts) AS compared
            FROM best)
    """


_TABLE_OF_CHAT = text(TABLE_OF_CHAT.format(space=":space"))


@lru_cache(maxsize=16)
def _nearest(space: EmbeddingSpace, *, of_key: bool, indexed: bool) -> TextClause:
    near = by_index(space) if indexed else exactly(space, of_key=of_key)
    return text(f"WITH {near} SELECT message_id, cosine, mean, compared FROM near_messages")


def best_chunks(space: EmbeddingSpace, condition: str, limit: int | None = None) -> str:
    """Return SQL after WITH: `best`, the messages that meet a condition, nearest first, by their best chunk.

    They are `limit`, or `:limit` without it, and those as near and of the same instant as the last of these. `facts`
    are the mean cosine of all chunks and the number of messages.
    """
    most = ":limit" if limit is None else str(int(limit))
    # as many rows more as there are further chunks: to group all rows would take as long as to compare them
    return f"""
        scope AS MATERIALIZED (
            SELECT message_id, sent_at, chunk_index, {distance(space)} AS distance FROM message_vectors
            WHERE {in_space(space)} AND {condition}
        ), facts AS MATERIALIZED (
            SELECT {cosine(space.questions, "avg(distance)")} AS mean,
                count(*) FILTER (WHERE chunk_index = 0) AS messages,
                count(*) FILTER (WHERE chunk_index > 0) AS more
            FROM scope
        ), near AS (
            SELECT message_id, sent_at, distance FROM scope ORDER BY distance, sent_at DESC
            LIMIT CAST({most} AS bigint) + {MAX_EQUALS} + (SELECT more FROM facts)
        ), best AS (
            SELECT message_id, sent_at, min(distance) AS distance FROM near
            GROUP BY message_id, sent_at ORDER BY min(distance), sent_at DESC FETCH FIRST ({most}) ROWS WITH TIES
        )
    """


def nearest(
    connection: Connection, scope: Scope, space: EmbeddingSpace, query: Vector, *, messages: int, limit: int
) -> VectorHits:
    """Return the `limit` messages of a scope nearest to the query; `messages`: how many the chat has."""
    values = {**scope.parameters(), "query": halved(query), "limit": limit}
    of_key = scope.session_key is not None
    table = run(connection, _TABLE_OF_CHAT, chat=scope.chat_id, space=space.id).one_or_none()
    indexed = not of_key and table is not None and by_its_index(messages, *table)
    return as_hits(
        run(connection, _nearest(space, of_key=of_key, indexed=indexed), **values).all(), indexed=indexed
    )


def of_speakers(space: EmbeddingSpace) -> str:
    """Return SQL of up to `:side` messages by `:speakers` among the `:within` nearest of the chat, nearest first."""
    return f"""
        WITH near AS MATERIALIZED (
            SELECT message_id, sent_at, min({distance(space)}) AS distance FROM message_vectors
            WHERE {in_space(space)} AND chat_id = :chat GROUP BY message_id, sent_at
            ORDER BY distance, sent_at DESC FETCH FIRST (:within) ROWS WITH TIES)
        SELECT m.id FROM near CROSS JOIN LATERAL (
            SELECT id FROM messages WHERE id = near.message_id AND chat_id = :chat
                AND coalesce(nullif(sender_name, ''), sender_id) = ANY(:speakers)
                AND (CAST(:key AS text) IS NULL OR session_key = :key)) m
        ORDER BY near.distance, near.sent_at DESC FETCH FIRST (:side) ROWS WITH TIES
    """


def as_hits(rows: Sequence[Sequence[Any]], *, indexed: bool) -> VectorHits:
    """Return the rows of `near_messages` as a value."""
    return VectorHits(
        cosines={row[0]: float(row[1]) for row in sorted(rows, key=lambda row: -row[1])},
        mean_cosine=float(rows[0][2]) if rows else 0.0,
        compared=int(rows[0][3]) if rows else 0,
        search="hnsw" if indexed else "exact",
    )


def is_worth_an_index(searched: float, everywhere: float) -> bool:
    """Tell whether an index beats an exact search: many vectors, and a good part of all.

    >>> is_worth_an_index(20_000, 20_000), is_worth_an_index(20_001, 20_001), is_worth_an_index(30_000, 300_000)
    (False, True, False)
    """
    return searched > EXACT_UP_TO and searched * TIMES_AS_MANY > everywhere


def by_its_index(messages: int, everywhere: float | None, is_indexed: bool | None) -> bool:
    """Tell whether a chat of `messages` is searched by an index, given the row of `TABLE_OF_CHAT`."""
    return bool(is_indexed) and is_worth_an_index(messages, everywhere or 0.0)
