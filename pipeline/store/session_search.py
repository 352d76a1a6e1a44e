"""SQL of sessions as a layer of retrieval: by the vectors and the words of their summaries, and what is in the best."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from sqlalchemy import Connection, TextClause, text

from pipeline.ranking.bm25 import K1, B
from pipeline.store.filters import Scope
from pipeline.store.keyword_search import any_of
from pipeline.store.statements import run
from pipeline.store.vectors import distance, in_space, literal
from schemas.vectors import EmbeddingSpace, Vector

_KEYED = "AND (CAST(:key AS text) IS NULL OR session_key = :key)"


@dataclass(frozen=True, kw_only=True)
class SessionHits:
    """Sessions whose summaries fit a query."""

    # the cosine of their best chunk, of the nearest, the best first
    cosines: dict[int, float] = field(default_factory=dict)
    # of all summarized sessions of the chat
    mean_cosine: float = 0.0
    # BM25 of their summaries, of the best, the best first
    words: dict[int, float] = field(default_factory=dict)


@lru_cache(maxsize=16)
def _best(space: EmbeddingSpace | None) -> TextClause:
    near = (
        "SELECT CAST(NULL AS bigint) AS session_id, CAST(NULL AS float8) AS distance WHERE false"
        if space is None
        else f"""SELECT session_id, min({distance(space)}) AS distance FROM session_vectors
            WHERE {in_space(space)} AND chat_id = :chat AND (CAST(:key AS text) IS NULL OR session_id IN (
                SELECT id FROM conversation_sessions WHERE chat_id = :chat AND session_key = :key))
            GROUP BY session_id"""
    )
    return text(f"""
        WITH near AS MATERIALIZED ({near}), scope AS MATERIALIZED (
            SELECT id, tsv, length(tsv) AS size, tsv @@ CAST(:any AS tsquery) AS holds FROM conversation_sessions
            WHERE chat_id = :chat AND status <> 'merged' {_KEYED}
            ORDER BY started_at DESC LIMIT :read
        ), frequency AS (
            SELECT scope.id, scope.size, t.lexeme, cardinality(t.positions) AS tf
            FROM scope CROSS JOIN LATERAL unnest(scope.tsv) t WHERE scope.holds AND t.lexeme = ANY(:lexemes)
        ), documents AS (
            SELECT lexeme, count(*) AS df, (SELECT CAST(count(*) AS float8) FROM scope) AS n,
                (SELECT CAST(greatest(avg(size), 1) AS float8) FROM scope) AS mean_size
            FROM frequency GROUP BY lexeme
        ), worded AS (
            SELECT id, sum(ln(1 + (n - df + 0.5) / (df + 0.5))
                * tf * ({K1} + 1) / (tf + {K1} * (1 - {B} + {B} * size / mean_size))) AS score
            FROM frequency JOIN documents USING (lexeme) GROUP BY id ORDER BY score DESC, id DESC LIMIT :limit
        ), nearest AS (
            SELECT session_id, 1 - distance AS cosine FROM near ORDER BY distance, session_id DESC LIMIT :limit
        )
        SELECT (SELECT jsonb_object_agg(session_id, cosine) FROM nearest), (SELECT avg(1 - distance) FROM near),
            (SELECT jsonb_object_agg(id, score) FROM worded)
    """)


def best(
    connection: Connection,
    scope: Scope,
    words: Sequence[str],
    space: EmbeddingSpace | None,
    query: Vector | None,
    *,
    read: int,
    limit: int,
) -> SessionHits:
    """Return the `limit` best sessions of a scope by the vectors of their summaries, and by BM25 of these.

    Words are looked for in the newest `read` sessions.
    """
    statement = _best(None if query is None else space)
    compared = {} if query is None else {"query": literal(query)}
    cosines, mean, worded = run(
        connection,
        statement,
        chat=scope.chat_id,
        key=scope.session_key,
        any=any_of(words),
        lexemes=words,
        read=read,
        limit=limit,
        **compared,
    ).one()
    return SessionHits(
        cosines=_best_first(cosines),
        mean_cosine=float(mean or 0.0),
        words=_best_first(worded),
    )


def _best_first(found: Mapping[str, float] | None) -> dict[int, float]:
    ordered = sorted((found or {}).items(), key=lambda one: (-one[1], -int(one[0])))
    return {int(session): float(value) for session, value in ordered}


@lru_cache(maxsize=16)
def _inside(space: EmbeddingSpace | None) -> TextClause:
    if space is None:
        messages = """
            SELECT m.id FROM messages m WHERE m.chat_id = :chat AND m.session_key = s.session_key
                AND m.sent_at BETWEEN s.started_at AND s.ended_at
            ORDER BY m.tsv @@ CAST(:any AS tsquery) DESC, m.sent_at LIMIT :limit"""
    else:
        messages = f"""
            SELECT v.message_id AS id FROM message_vectors v WHERE {in_space(space, "v.")} AND v.chat_id = :chat
                AND v.sent_at BETWEEN s.started_at AND s.ended_at AND v.chunk_index = 0
            ORDER BY {distance(space, "v.embedding")} LIMIT :limit"""
    return text(f"""
        SELECT m.id FROM (
            SELECT session_key, started_at, ended_at FROM conversation_sessions WHERE id = ANY(:sessions)) s
        CROSS JOIN LATERAL ({messages}) m
    """)


def messages_inside(
    connection: Connection,
    scope: Scope,
    sessions: Sequence[int],
    words: Sequence[str],
    space: EmbeddingSpace | None,
    query: Vector | None,
    *,
    limit: int,
) -> list[int]:
    """Return the best messages at the time of each of these sessions, `limit` of each: by vector, or else by words."""
    statement = _inside(None if query is None else space)
    given = {"chat": scope.chat_id, "sessions": list(sessions), "limit": limit}
    compared = {"any": any_of(words)} if query is None else {"query": literal(query)}
    return [row[0] for row in run(connection, statement, **given, **compared)]
