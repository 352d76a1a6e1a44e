"""SQL of sessions as a layer of retrieval: by the vectors and the words of their summaries, and what is in the best."""

from dataclasses import dataclass

from pipeline.ranking.bm25 import K1, B
from pipeline.store.keyword_search import times_in
from pipeline.store.vectors import distance, in_space
from schemas.vectors import EmbeddingSpace

_KEYED = "AND (CAST(:key AS text) IS NULL OR session_key = :key)"


@dataclass(frozen=True, kw_only=True)
class SessionLimits:
    """How many sessions a search takes; parts of its statement, as a plan for any numbers would be a bad one."""

    # the newest, whose summaries are compared by words
    read: int
    # the best by either, whose messages are looked at
    looked_into: int
    # of each
    messages: int


def best(space: EmbeddingSpace | None, limits: SessionLimits) -> str:
    """Return SQL after WITH: the best sessions of a scope by `nearest_sessions` and, by BM25, `worded`.

    Their summaries are compared: the vectors of all, and the words of the newest.
    """
    near = (
        "SELECT CAST(NULL AS bigint) AS session_id, CAST(NULL AS float8) AS distance WHERE false"
        if space is None
        else f"""SELECT session_id, min({distance(space)}) AS distance FROM session_vectors
            WHERE {in_space(space)} AND chat_id = :chat AND (CAST(:key AS text) IS NULL OR session_id IN (
                SELECT id FROM conversation_sessions WHERE chat_id = :chat AND session_key = :key))
            GROUP BY session_id"""
    )
    # A summary's tsvector lies out of line: to fetch it costs more than all else, so each is fetched once.
    return f"""
        near_sessions AS MATERIALIZED ({near}), newest AS MATERIALIZED (
            SELECT id FROM conversation_sessions WHERE chat_id = :chat AND status <> 'merged' {_KEYED}
            ORDER BY ended_at DESC LIMIT {int(limits.read)}
        ), described AS MATERIALIZED (
            SELECT s.id, s.tsv, length(s.tsv) AS size, s.tsv @@ CAST(:any AS tsquery) AS holds
            FROM newest CROSS JOIN LATERAL (
                SELECT id, tsv || CAST('' AS tsvector) AS tsv FROM conversation_sessions
                WHERE id = newest.id OFFSET 0) s
        ), asked AS MATERIALIZED (
            SELECT lexeme, CAST(quoted AS tsquery) AS query
            FROM unnest(CAST(:words AS text[]), CAST(:quoted AS text[])) AS given (lexeme, quoted)
        ), frequency AS MATERIALIZED (
            SELECT d.id, d.size, asked.lexeme, {times_in("d.tsv", "asked.query")} AS tf
            FROM described d JOIN asked ON d.tsv @@ asked.query WHERE d.holds
        ), documents AS MATERIALIZED (
            SELECT lexeme, count(*) AS df, (SELECT CAST(count(*) AS float8) FROM described) AS n,
                (SELECT CAST(greatest(avg(size), 1) AS float8) FROM described) AS mean_size
            FROM frequency GROUP BY lexeme
        ), worded AS MATERIALIZED (
            SELECT id, sum(ln(1 + (n - df + 0.5) / (df + 0.5))
                * tf * ({K1} + 1) / (tf + {K1} * (1 - {B} + {B} * size / mean_size))) AS score
            FROM frequency JOIN documents USING (lexeme) GROUP BY id
            ORDER BY score DESC, id DESC LIMIT {int(limits.looked_into)}
        ), nearest_sessions AS MATERIALIZED (
            SELECT session_id AS id, 1 - distance AS cosine FROM near_sessions
            ORDER BY distance, session_id DESC LIMIT {int(limits.looked_into)}
        )
    """


def messages_inside(space: EmbeddingSpace | None, limits: SessionLimits) -> str:
    """Return SQL after WITH and `best`: the best messages at the time of the best few sessions, as `inside`.

    By vector, or else by words, of each session that is among the first by either order.
    """
    if space is None:
        messages = """
            SELECT m.id FROM messages m WHERE m.chat_id = :chat AND m.session_key = s.session_key
                AND m.sent_at BETWEEN s.started_at AND s.ended_at
            ORDER BY m.tsv @@ CAST(:any AS tsquery) DESC, m.sent_at"""
    else:
        messages = f"""
            SELECT v.message_id AS id FROM message_vectors v WHERE {in_space(space, "v.")} AND v.chat_id = :chat
                AND v.sent_at BETWEEN s.started_at AND s.ended_at AND v.chunk_index = 0
            ORDER BY {distance(space, "v.embedding")}"""
    return f"""
        chosen AS MATERIALIZED (
            SELECT id, min(place) AS place FROM (
                SELECT id, row_number() OVER (ORDER BY cosine DESC, id DESC) AS place FROM nearest_sessions
                UNION ALL
                SELECT id, row_number() OVER (ORDER BY score DESC, id DESC) AS place FROM worded) ranked
            GROUP BY id
        ), inside AS (
            SELECT m.id, chosen.place FROM chosen CROSS JOIN LATERAL (
                SELECT session_key, started_at, ended_at FROM conversation_sessions WHERE id = chosen.id OFFSET 0) s
            CROSS JOIN LATERAL ({messages} LIMIT {int(limits.messages)}) m
        )
    """
