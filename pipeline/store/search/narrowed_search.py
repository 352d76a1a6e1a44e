"""SQL of the narrowed search: the sessions that fit a question, then messages inside the best of them only.

It compares the question with the summaries of a chat's sessions and with the messages of a few, never with all
messages.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from typing import Any

from sqlalchemy import Connection, TextClause, text

from pipeline.store.connections.statements import arrays, run
from pipeline.store.memories import memory_candidates
from pipeline.store.memories.memory_candidates import MemoryHits, MemoryScope
from pipeline.store.search import keyword_search, session_search
from pipeline.store.search.filters import Scope, affinity_of
from pipeline.store.search.keyword_search import KeywordHits, any_of
from pipeline.store.sessions.session_rows import LAST_BEGUN_FIRST
from pipeline.store.vectors import halved
from schemas.vectors import EmbeddingSpace, Vector

# Sessions compared by all the words of their messages.
BY_WORDS = 300
_WHICH = """
    chat_id = :chat AND status <> 'merged' AND (CAST(:key AS text) IS NULL OR session_key = :key)
        AND (CAST(:session AS bigint) IS NULL OR id = :session)
        AND (CAST(:since AS timestamptz) IS NULL OR ended_at >= :since)
        AND (CAST(:until AS timestamptz) IS NULL OR started_at < :until)
"""


@dataclass(frozen=True, kw_only=True)
class SessionsAsked:
    """The sessions that may be found, and those that a question prefers."""

    # of one id, or that were going on in a time; None: any
    session_id: int | None = None
    since: datetime | None = None
    until: datetime | None = None
    # times that the question names
    times: Sequence[tuple[datetime, datetime]] = ()
    # limits of sessions found, of the best of them to look into, and of messages of each
    most: int
    looked_into: int
    messages: int

    @property
    def is_open(self) -> bool:
        """Tell whether any session may be found."""
        return self.session_id is None and self.since is None and self.until is None


@dataclass(frozen=True, kw_only=True)
class FoundSession:
    """A session that was found, with the parts of its score."""

    id: int
    # what it is found by, each from 0 to 1: `words`, `meaning`, `affinity` and `time`
    parts: Mapping[str, float]


@dataclass(frozen=True, kw_only=True)
class Narrowed:
    """The results of a narrowed search for one query."""

    # the best first
    sessions: Sequence[FoundSession] = ()
    # the nearest messages of those that are looked into
    messages: Sequence[int] = ()
    by_word: KeywordHits = field(default_factory=KeywordHits)
    # of all summaries, and how many of these and of messages were compared
    mean_cosine: float = 0.0
    compared: int = 0
    memories: MemoryHits = field(default_factory=MemoryHits)


@lru_cache(maxsize=32)
def _statement(
    space: EmbeddingSpace | None, looked_into: int, messages: int, *, is_open: bool, remembers: bool
) -> TextClause:
    # a generic plan for any limits would be bad, so these are part of the statement
    looked = int(looked_into)
    inside = "" if is_open else f"AND session_id IN (SELECT id FROM conversation_sessions WHERE {_WHICH})"
    near = "SELECT CAST(NULL AS bigint) AS id, CAST(NULL AS float8) AS cosine WHERE false"
    if space is not None:
        near = session_search.summaries(space, inside)
    best = session_search.messages_of("looked", space, int(messages))
    memories = f", ({memory_candidates.candidates(space)}) AS memories" if remembers else ""
    return text(f"""
        WITH by_word AS MATERIALIZED (
            SELECT * FROM {keyword_search.search(limit="0", sessions=BY_WORDS)} WHERE :any <> ''
        ), summaries AS MATERIALIZED ({near}), facts AS MATERIALIZED (
            SELECT avg(cosine) AS mean, max(cosine) AS best, count(*) AS compared FROM summaries
        ), {session_search.SPOKEN}, likely AS MATERIALIZED (
            SELECT * FROM (
                SELECT coalesce(m.id, w.id) AS id, m.cosine,
                    coalesce(greatest((m.cosine - mean) / nullif(best - mean, 0), 0), 0) AS meaning,
                    coalesce(w.score / (SELECT nullif(max(score), 0) FROM spoken), 0) AS words
                FROM summaries m CROSS JOIN facts FULL JOIN spoken w ON w.id = m.id) parts
            ORDER BY meaning + words DESC, cosine DESC NULLS LAST FETCH FIRST {BY_WORDS} ROWS WITH TIES
        ), found AS MATERIALIZED (
            SELECT likely.*, s.*, row_number() OVER (
                ORDER BY meaning + words + affinity + at DESC, {LAST_BEGUN_FIRST}) AS place
            FROM likely CROSS JOIN LATERAL (
                SELECT id AS session, session_key, started_at, ended_at, message_count,
                    {affinity_of("participants")} AS affinity, CAST(EXISTS (
                        SELECT 1 FROM unnest(CAST(:starts AS timestamptz[]), CAST(:ends AS timestamptz[]))
                            AS span (start, stop)
                        WHERE started_at < span.stop AND ended_at >= span.start) AS integer) AS at
                FROM conversation_sessions WHERE id = likely.id AND {_WHICH} OFFSET 0) s
            ORDER BY place LIMIT :best
        )
        SELECT frequencies, exact, mean,
            compared + (SELECT coalesce(sum(message_count), 0) FROM found WHERE place <= {looked}) AS compared,
            (SELECT json_agg(json_build_array(id, words, meaning, affinity, at) ORDER BY place)
                FROM found) AS sessions,
            (SELECT array_agg(hit.id ORDER BY place, hit.id)
                FROM found looked CROSS JOIN LATERAL ({best}) hit WHERE place <= {looked}) AS messages{memories}
        FROM facts LEFT JOIN by_word ON true
    """)


def search(
    connection: Connection,
    scope: Scope,
    words: Sequence[str],
    embedded: tuple[EmbeddingSpace, Vector] | None,
    which: SessionsAsked,
    memories: MemoryScope | None = None,
) -> Narrowed:
    """Find the sessions of a scope that fit lexemes and a vector best, and messages inside the best of them.

    Sessions are found by the sum of four parts: the share of the best BM25, over all that was said in one; the share of
    the best cosine above the mean, of its summary; the asker's affinity to those who spoke there; and 1 if the question
    names its time.
    """
    space, vector = embedded or (None, None)
    is_open = which.is_open and scope.session_key is None
    statement = _statement(
        space, which.looked_into, which.messages, is_open=is_open, remembers=memories is not None
    )
    values: dict[str, Any] = {} if vector is None else {"query": halved(vector)}
    if memories is not None:
        values |= memories.parameters()
    row = run(
        connection,
        statement,
        **scope.parameters(),
        affinities=scope.affinities,
        words=words,
        any=any_of(words),
        session=which.session_id,
        since=which.since,
        until=which.until,
        **arrays("starts ends", which.times),
        best=which.most,
        **keyword_search.sizes_of(scope),
        **values,
    ).one()
    return Narrowed(
        sessions=[_session(*columns) for columns in row.sessions or ()],
        messages=row.messages or [],
        by_word=keyword_search.as_hits(row.frequencies, {}, row.exact, scope.messages)
        if words
        else KeywordHits(),
        mean_cosine=float(row.mean or 0.0),
        compared=int(row.compared),
        memories=memory_candidates.as_hits(row.memories) if memories is not None else MemoryHits(),
    )


def _session(session: int, words: float, meaning: float, affinity: float, time: int) -> FoundSession:
    return FoundSession(
        id=session, parts={"words": words, "meaning": meaning, "affinity": affinity, "time": float(time)}
    )
