"""SQL of sessions as a layer of retrieval: the best by their summaries and by all that was said in them."""

from dataclasses import dataclass

from pipeline.store.search.filters import affinity_of
from pipeline.store.search.keyword_search import K1, B, times_in
from pipeline.store.sessions.session_rows import LAST_BEGUN_FIRST
from pipeline.store.vectors import cosine, distance, in_space
from schemas.sessions import EXTRACTIVE
from schemas.vectors import EmbeddingSpace

SPOKEN = """spoken AS MATERIALIZED (
    SELECT CAST(key AS bigint) AS id, CAST(value AS float8) AS score
    FROM by_word CROSS JOIN LATERAL jsonb_each_text(sessions))"""
"""SQL after WITH and `by_word`: the sessions that a keyword search has found."""
_KEYED = "AND (CAST(:key AS text) IS NULL OR session_key = :key)"
# Sessions that are compared of each kind: by the words of all that was said, and by the words and vectors of summaries.
BY_WORDS, BY_SUMMARY = 300, 50


@dataclass(frozen=True, kw_only=True)
class SessionLimits:
    """How many sessions a search takes; parts of its statement, as a plan for any numbers would be a bad one."""

    # the newest, whose summaries by a language model are compared by words
    read: int
    # the nearest messages, whose sessions are compared
    nearest: int
    # the best, whose messages are looked at
    looked_into: int
    # of each
    messages: int
    # those with the highest affinity of the asker, and the nearest messages of all of these together; 0: none
    close_sessions: int = 0
    close_messages: int = 0


def best(space: EmbeddingSpace | None, limits: SessionLimits) -> str:
    """Return SQL after WITH, `by_word` and `near_messages`: `chosen`, the best sessions of a scope with their scores.

    A session's score is the sum of three shares from 0 to 1: by meaning, of the best cosine above the mean, of its
    messages or of its summary; by words, of the best BM25, over all that was said in it or over its summary by a
    language model; and the asker's affinity to those who spoke there.
    """
    # An extractive summary has no words that were not said. A summary's tsvector lies out of line: to fetch it costs
    # more than all else, so each is fetched once.
    return f"""
        {_by_meaning(space, limits)}, newest AS MATERIALIZED (
            SELECT id FROM (
                SELECT id, summary_model FROM conversation_sessions
                WHERE chat_id = :chat AND status <> 'merged' {_KEYED}
                ORDER BY ended_at DESC FETCH FIRST {int(limits.read)} ROWS WITH TIES) latest
            WHERE summary_model <> '{EXTRACTIVE}'
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
            SELECT id, CAST(sum(ln(1 + (n - df + 0.5) / (df + 0.5))
                * tf * ({K1} + 1) / (tf + {K1} * (1 - {B} + {B} * size / mean_size))) AS real) AS score
            FROM frequency JOIN documents USING (lexeme) GROUP BY id
            ORDER BY score DESC FETCH FIRST {BY_SUMMARY} ROWS WITH TIES
        ), {SPOKEN}, likely AS MATERIALIZED (
            SELECT id, max(near) AS near, max(words) AS words FROM (
                SELECT id, near, CAST(0 AS float8) AS words FROM by_meaning
                UNION ALL SELECT id, 0, score / (SELECT nullif(max(score), 0) FROM spoken) FROM spoken
                UNION ALL SELECT id, 0, score / (SELECT nullif(max(score), 0) FROM worded) FROM worded) share
            GROUP BY id
        ), chosen AS MATERIALIZED (
            SELECT s.* FROM likely CROSS JOIN LATERAL (
                SELECT id, session_key, started_at, ended_at,
                    likely.near + likely.words + {affinity_of("participants")} AS score
                FROM conversation_sessions WHERE id = likely.id OFFSET 0) s
            ORDER BY s.score DESC, {LAST_BEGUN_FIRST} LIMIT {int(limits.looked_into)}
        )
    """


def _by_meaning(space: EmbeddingSpace | None, limits: SessionLimits) -> str:
    """Return SQL after WITH: `by_meaning`, the sessions with the nearest messages or summaries, with their shares."""
    if space is None:
        return "by_meaning AS (SELECT CAST(NULL AS bigint) AS id, CAST(0 AS float8) AS near WHERE false)"
    inside = """AND (CAST(:key AS text) IS NULL OR session_id IN (
        SELECT id FROM conversation_sessions WHERE chat_id = :chat AND session_key = :key))"""
    return f"""
        summaries AS MATERIALIZED ({summaries(space, inside)}), messages_of AS MATERIALIZED (
            SELECT s.id, max(cosine) AS cosine FROM (
                SELECT message_id, cosine FROM near_messages
                ORDER BY cosine DESC, sent_at DESC FETCH FIRST {int(limits.nearest)} ROWS WITH TIES) near
            CROSS JOIN LATERAL (SELECT session_key, sent_at FROM messages
                WHERE id = near.message_id AND chat_id = :chat OFFSET 0) m
            CROSS JOIN LATERAL (
                SELECT id FROM conversation_sessions WHERE chat_id = :chat AND session_key = m.session_key
                    AND status <> 'merged' AND started_at <= m.sent_at ORDER BY started_at DESC LIMIT 1) s
            GROUP BY s.id
        ), by_meaning AS MATERIALIZED (
            SELECT id, (cosine - mean) / (best - mean) AS near FROM messages_of CROSS JOIN (
                SELECT max(mean) AS mean, max(cosine) AS best FROM near_messages) AS facts
            WHERE cosine > mean
            UNION ALL (
                SELECT id, (cosine - mean) / (best - mean) FROM summaries CROSS JOIN (
                    SELECT avg(cosine) AS mean, max(cosine) AS best FROM summaries) AS facts
                WHERE cosine > mean ORDER BY cosine DESC FETCH FIRST {BY_SUMMARY} ROWS WITH TIES)
        )
    """


def summaries(space: EmbeddingSpace, inside: str) -> str:
    """Return SQL of the sessions of a chat with the cosine of their summaries, where a further condition holds."""
    return f"""
        SELECT session_id AS id, {cosine(space.questions, f"min({distance(space)})")} AS cosine
        FROM session_vectors WHERE {in_space(space)} AND chat_id = :chat {inside} GROUP BY session_id"""


def messages_of(session: str, space: EmbeddingSpace | None, limit: int) -> str:
    """Return SQL of the best messages at the time of a session: by vector, or else by words."""
    if space is None:
        return f"""
            SELECT m.id FROM messages m WHERE m.chat_id = :chat AND m.session_key = {session}.session_key
                AND m.sent_at BETWEEN {session}.started_at AND {session}.ended_at
            ORDER BY m.tsv @@ CAST(:any AS tsquery) DESC, m.sent_at FETCH FIRST {limit} ROWS WITH TIES"""
    return f"""
        SELECT v.message_id AS id FROM message_vectors v WHERE {in_space(space, "v.")} AND v.chat_id = :chat
            AND v.sent_at BETWEEN {session}.started_at AND {session}.ended_at AND v.chunk_index = 0
        ORDER BY {distance(space, "v.embedding")}, v.sent_at FETCH FIRST {limit} ROWS WITH TIES"""


def messages_inside(space: EmbeddingSpace | None, limits: SessionLimits) -> str:
    """Return SQL after WITH and `best`: the best messages at the time of the chosen sessions, as `inside`."""
    messages = messages_of("chosen", space, int(limits.messages))
    return f"inside AS (SELECT m.id, chosen.score FROM chosen CROSS JOIN LATERAL ({messages}) m)"


def messages_by_affinity(space: EmbeddingSpace, limits: SessionLimits) -> str:
    """Return SQL after WITH: the nearest messages of sessions with the highest affinity of the asker, as `by_affinity`.

    Among all messages of a large chat those of the asker's people are far down, by words and by vector.
    """
    # without OFFSET each affinity would be computed twice
    return f"""
        close_sessions AS MATERIALIZED (
            SELECT started_at, ended_at FROM (
                SELECT session_key, started_at, ended_at, {affinity_of("participants")} AS affinity
                FROM conversation_sessions WHERE chat_id = :chat AND status <> 'merged' {_KEYED} OFFSET 0) s
            WHERE affinity > 0 ORDER BY affinity DESC, {LAST_BEGUN_FIRST} LIMIT {int(limits.close_sessions)}
        ), by_affinity AS (
            SELECT v.* FROM close_sessions s CROSS JOIN LATERAL (
                SELECT message_id AS id, sent_at, {distance(space)} AS distance FROM message_vectors
                WHERE {in_space(space)} AND chat_id = :chat AND sent_at BETWEEN s.started_at AND s.ended_at
                    AND chunk_index = 0 OFFSET 0) v
            ORDER BY distance, v.sent_at DESC FETCH FIRST {int(limits.close_messages)} ROWS WITH TIES
        )
    """
