"""SQL that reads messages for ranking: all of a scope, or those around what was found.

Single-table statements over the scope's own index, put together by the caller: a join of messages, sessions and
vectors costs a hundred times as much as soon as the planner's statistics are behind.
"""

from collections.abc import Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any, NamedTuple

from sqlalchemy import Connection, Row, TextClause, text

from pipeline.store.filters import IN_SCOPE, Scope
from pipeline.store.keyword_search import any_of
from pipeline.store.messages import answered
from pipeline.store.statements import run
from pipeline.store.vectors import distance, in_space, literal
from schemas.vectors import EmbeddingSpace, Vector

_SESSION_RANGES = text(f"""
    SELECT id, session_key, started_at, ended_at FROM conversation_sessions
    WHERE {IN_SCOPE} AND status <> 'merged'
""")
# A message as ranking reads it. Only where a lexeme of the query is in it are they counted.
_COLUMNS = """
    m.id, m.external_id, m.session_key, coalesce(nullif(m.sender_name, ''), m.sender_id) AS speaker, m.role,
    m.content, m.sent_at, m.position, coalesce(length(m.tsv), 0) AS size,
    CASE WHEN m.tsv @@ CAST(:any AS tsquery) THEN
        (SELECT jsonb_object_agg(t.lexeme, cardinality(t.positions)) FROM unnest(m.tsv) t
            WHERE t.lexeme = ANY(:lexemes)) END AS terms,
    m.reply_to
"""
_ALL_MESSAGES = text(f"SELECT {_COLUMNS} FROM messages m WHERE {IN_SCOPE}")
_CONTENTS = text("SELECT id, content FROM messages WHERE id = ANY(:ids)")
_AROUND = text("""
    WITH found AS MATERIALIZED (
        SELECT m.id, m.sent_at, m.session_key, s.id AS session_id, s.started_at, s.ended_at
        FROM messages m LEFT JOIN LATERAL (
            SELECT s.id, s.started_at, s.ended_at FROM conversation_sessions s
            WHERE s.chat_id = m.chat_id AND s.session_key = m.session_key AND s.status <> 'merged'
                AND s.started_at <= m.sent_at
            ORDER BY s.started_at DESC LIMIT 1) s ON s.ended_at >= m.sent_at
        WHERE m.id = ANY(:ids) AND m.chat_id = :chat
    )
    SELECT id, coalesce(session_id, 0) FROM found
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
""")


class SessionRange(NamedTuple):
    """Where a session reaches."""

    id: int
    session_key: str
    started_at: datetime
    ended_at: datetime


def session_ranges(connection: Connection, scope: Scope) -> list[SessionRange]:
    """Return the ranges of all sessions in a scope, by key and time."""
    rows = run(connection, _SESSION_RANGES, **scope.given()).all()
    return sorted((SessionRange(*row) for row in rows), key=lambda r: (r.session_key, r.started_at))


def all_messages(connection: Connection, scope: Scope, words: Sequence[str]) -> Sequence[Row[Any]]:
    """Return every message of a scope for ranking."""
    return run(connection, _ALL_MESSAGES, **scope.given(), lexemes=words, any=any_of(words)).all()


@lru_cache(maxsize=16)
def _these_messages(space: EmbeddingSpace | None) -> TextClause:
    cosine = "NULL"
    if space is not None:
        # a look-up for each message, whatever the planner thinks of the tables
        cosine = f"""(SELECT max(1 - ({distance(space, "v.embedding")})) FROM message_vectors v
            WHERE v.tenant_id = m.tenant_id AND v.message_id = m.id AND {in_space(space, "v.")})"""
    return text(
        f"SELECT {_COLUMNS}, {answered('m')} AS answered, {cosine} AS cosine FROM messages m WHERE id = ANY(:ids)"
    )


def these_messages(
    connection: Connection,
    ids: Sequence[int],
    words: Sequence[str],
    space: EmbeddingSpace | None,
    query: Vector | None,
) -> Sequence[Row[Any]]:
    """Return messages for ranking; the last columns are what each answers and its cosine to the query."""
    statement = _these_messages(None if query is None else space)
    compared = {} if query is None else {"query": literal(query)}
    return run(connection, statement, ids=ids, lexemes=words, any=any_of(words), **compared).all()


def contents(connection: Connection, ids: Sequence[int]) -> list[tuple[int, str]]:
    """Return `(id, text)` of these messages."""
    return [(row[0], row[1]) for row in run(connection, _CONTENTS, ids=ids)]


@lru_cache(maxsize=16)
def _cosines(space: EmbeddingSpace) -> TextClause:
    return text(
        f"SELECT message_id, 1 - ({distance(space)}) FROM message_vectors WHERE {in_space(space)} AND chat_id = :chat"
    )


def cosines(connection: Connection, scope: Scope, space: EmbeddingSpace, query: Vector) -> dict[int, float]:
    """Return the cosine to the query of every message of the scope's chat that has a vector, of its best chunk."""
    best: dict[int, float] = {}
    for message, cosine in run(connection, _cosines(space), **scope.given(), query=literal(query)):
        # grouped here, as nearly all have one chunk
        if message not in best or cosine > best[message]:
            best[message] = float(cosine)
    return best


@lru_cache(maxsize=16)
def _cosines_of(space: EmbeddingSpace) -> TextClause:
    return text(f"""
        SELECT message_id, max(1 - ({distance(space)})) FROM message_vectors
        WHERE {in_space(space)} AND message_id = ANY(:ids) GROUP BY message_id
    """)


def cosines_of(
    connection: Connection, ids: Sequence[int], space: EmbeddingSpace, query: Vector
) -> dict[int, float]:
    """Return the cosine to the query of those of these messages that have a vector."""
    rows = run(connection, _cosines_of(space), ids=ids, query=literal(query)).all()
    return {row[0]: float(row[1]) for row in rows}


def around(connection: Connection, scope: Scope, ids: Sequence[int], reach: int) -> dict[int, int]:
    """Return messages and up to `reach` on either side within their sessions, each with its session or 0."""
    rows = run(connection, _AROUND, **scope.given(), ids=ids, side=reach + 1).all()
    return {row[0]: row[1] for row in rows}
