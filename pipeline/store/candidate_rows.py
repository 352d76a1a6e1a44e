"""SQL that reads messages for ranking: those around what was found, and what a candidate is made of.

Look-ups over the scope's own indexes, one for each message: a join of messages, sessions and vectors costs a hundred
times as much as soon as the planner's statistics are behind.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from sqlalchemy import Connection, Row, TextClause, text

from pipeline.store.filters import Scope
from pipeline.store.keyword_search import any_of
from pipeline.store.messages import answered
from pipeline.store.statements import run
from pipeline.store.vectors import distance, in_space, literal
from schemas.vectors import EmbeddingSpace, Vector

# A message as ranking reads it. Only where a lexeme of the query is in it are they counted.
_COLUMNS = """
    m.id, m.external_id, coalesce(nullif(m.sender_name, ''), m.sender_id) AS speaker, m.role,
    m.content, m.sent_at, m.position, coalesce(length(m.tsv), 0) AS size,
    CASE WHEN m.tsv @@ CAST(:any AS tsquery) THEN
        (SELECT jsonb_object_agg(t.lexeme, cardinality(t.positions)) FROM unnest(m.tsv) t
            WHERE t.lexeme = ANY(:lexemes)) END AS terms,
    m.reply_to
"""
_CONTENTS = text("SELECT id, content FROM messages WHERE id = ANY(:ids)")
# Messages that answer one that was found, or that it answers, are as good as found.
_REPLIES = 3
# No window is numbered before its LIMIT, which bounds the sort of messages of one instant: it would read them all.
_NEAR = f"""
    given AS MATERIALIZED (
        SELECT id, external_id, reply_to FROM messages WHERE id = ANY(:ids) AND chat_id = :chat
    ), wanted AS MATERIALIZED (
        SELECT id FROM given
        UNION SELECT r.id FROM given g CROSS JOIN LATERAL (
            SELECT id FROM messages r WHERE r.chat_id = :chat AND r.reply_to = g.external_id
            ORDER BY r.sent_at LIMIT {_REPLIES}) r WHERE :reach > 0
        UNION SELECT r.id FROM given g CROSS JOIN LATERAL (
            SELECT id FROM messages r WHERE r.chat_id = :chat AND r.external_id = g.reply_to) r
        WHERE g.reply_to IS NOT NULL AND :reach > 0
    ), found AS MATERIALIZED (
        SELECT m.id, m.sent_at, m.position, m.session_key, s.id AS session_id, s.started_at, s.ended_at
        FROM wanted CROSS JOIN LATERAL (
            SELECT * FROM messages WHERE id = wanted.id AND chat_id = :chat) m
        LEFT JOIN LATERAL (
            SELECT s.id, s.started_at, s.ended_at FROM conversation_sessions s
            WHERE s.chat_id = m.chat_id AND s.session_key = m.session_key AND s.status <> 'merged'
                AND s.started_at <= m.sent_at
            ORDER BY s.started_at DESC LIMIT 1) s ON s.ended_at >= m.sent_at
    ), near AS (
        SELECT id AS found, id, coalesce(session_id, 0) AS session, sent_at, position FROM found
        UNION ALL
        SELECT f.id, n.id, f.session_id, n.sent_at, n.position FROM found f CROSS JOIN LATERAL (
            (SELECT n.id, n.sent_at, n.position FROM messages n
                WHERE n.chat_id = :chat AND n.session_key = f.session_key
                    AND n.sent_at BETWEEN f.started_at AND f.sent_at
                    AND (n.sent_at, n.position, n.id) < (f.sent_at, f.position, f.id)
                ORDER BY n.sent_at DESC, n.position DESC, n.id DESC LIMIT :reach)
            UNION ALL
            (SELECT n.id, n.sent_at, n.position FROM messages n
                WHERE n.chat_id = :chat AND n.session_key = f.session_key
                    AND n.sent_at BETWEEN f.sent_at AND f.ended_at
                    AND (n.sent_at, n.position, n.id) > (f.sent_at, f.position, f.id)
                ORDER BY n.sent_at, n.position, n.id LIMIT :reach)) n
        WHERE f.session_id IS NOT NULL AND :reach > 0
    )
"""
_AROUND = text(f"WITH {_NEAR} SELECT id, max(session) FROM near GROUP BY id")


@lru_cache(maxsize=16)
def _with_neighbours(space: EmbeddingSpace | None) -> TextClause:
    cosine = "CAST(NULL AS float8)"
    if space is not None:
        # a look-up for each message, whatever the planner thinks of the tables
        cosine = f"""(SELECT max(1 - ({distance(space, "v.embedding")})) FROM message_vectors v
            WHERE v.tenant_id = m.tenant_id AND v.message_id = m.id AND {in_space(space, "v.")})"""
    return text(f"""
        WITH {_NEAR}, placed AS MATERIALIZED (
            SELECT id, max(session) AS session, max(next) AS next FROM (
                SELECT id, session, lead(id) OVER (PARTITION BY found ORDER BY sent_at, position, id) AS next
                FROM near) window_of
            GROUP BY id
        )
        SELECT {_COLUMNS}, {answered("m")} AS answered, {cosine} AS cosine, placed.session, placed.next,
            c.asks, c.flags
        FROM placed CROSS JOIN LATERAL (SELECT * FROM messages WHERE id = placed.id OFFSET 0) m
        LEFT JOIN LATERAL (SELECT asks, flags FROM message_cues c
            WHERE c.tenant_id = m.tenant_id AND c.message_id = m.id OFFSET 0) c ON true
    """)


def with_neighbours(
    connection: Connection,
    scope: Scope,
    ids: Sequence[int],
    reach: int,
    words: Sequence[str],
    space: EmbeddingSpace | None,
    query: Vector | None,
) -> Sequence[Row[Any]]:
    """Return messages for ranking, with up to `reach` on either side within their sessions and what answers them.

    The last columns are what each answers, its cosine to the query, its session (0: not placed yet), the message
    that is known to come right after it there, and its cues where they are stored.
    """
    statement = _with_neighbours(None if query is None else space)
    compared = {} if query is None else {"query": literal(query)}
    given = {"chat": scope.chat_id, "ids": ids, "reach": reach, "lexemes": words, "any": any_of(words)}
    return run(connection, statement, **given, **compared).all()


def contents(connection: Connection, ids: Sequence[int]) -> list[tuple[int, str]]:
    """Return `(id, text)` of these messages."""
    return [(row[0], row[1]) for row in run(connection, _CONTENTS, ids=ids)]


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
    """Return messages with up to `reach` on either side within their sessions: the session (0: none yet) of each."""
    rows = run(connection, _AROUND, chat=scope.chat_id, ids=ids, reach=reach)
    return {row[0]: row[1] for row in rows}
