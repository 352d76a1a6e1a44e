"""Score sessions against a query, and narrow a search to the few that fit best.

A session's score is the mean of three parts from 0 to 1:

- `words`: the share of the query's words in its messages or summary, each word weighted by its rarity (BM25's idf);
- `meaning`: the cosine of its summary to the query, or of its best message as long as it has no summary;
- `best_message`: the score of its best message as a share of the best of all.

It fits by the larger of the first two: that is what `min_similarity` is compared with.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from types import MappingProxyType
from typing import Any, NamedTuple

from sqlalchemy import Connection, Row

from pipeline.ranking import rank
from pipeline.ranking.model import OTHER_QUERY_WEIGHT
from pipeline.ranking.similarity import best_cosines, share_of_words
from pipeline.retrieval.candidates import lexemes_of
from pipeline.retrieval.message_ranking import Ranking, allowed, terms_by_session
from pipeline.retrieval.prepare import PreparedQuery
from pipeline.retrieval.profiles import Parameters
from pipeline.store import sessions as stored_sessions
from pipeline.store import text_search, vector_search
from schemas.sessions import EXTRACTIVE

# Sessions after the chosen ones that may be related to them.
RELATED_CONSIDERED = 12
# Of a time that a question asks to sum up, the latest sessions: more than a context has room for.
MAX_OVERVIEW_SESSIONS = 100
_NONE: Mapping[str, float] = MappingProxyType({})


@dataclass(frozen=True, kw_only=True)
class RetrievedSession:
    """A session that was found, with its final score."""

    id: int
    started_at: datetime
    ended_at: datetime
    summary: str | None
    # whether a language model wrote the summary: an extractive one quotes, and says no more than its messages
    is_described: bool = field(default=False, kw_only=True)
    participants: Sequence[str]
    topics: Sequence[str]
    entities: Sequence[str]
    session_key: str
    message_count: int
    score: float = 0.0
    # what the score is made of
    components: Mapping[str, float] = field(default_factory=dict)


class ScoredSession(NamedTuple):
    """How well a session fits a query."""

    id: int
    # the mean of its components
    score: float
    # `words`, `meaning` and `best_message`
    components: Mapping[str, float]

    @property
    def fit(self) -> float:
        """The larger of what it holds and what it is about, from 0 to 1."""
        return max(self.components["words"], self.components["meaning"])


@dataclass(frozen=True, kw_only=True)
class Narrowing:
    """The sessions worth looking into, or none if none fits well enough, with the next best."""

    chosen: Sequence[RetrievedSession]
    others: Sequence[RetrievedSession]


def score_sessions(connection: Connection, query: PreparedQuery, ranking: Ranking) -> list[ScoredSession]:
    """Score all sessions that the request's filter lets through, best first; ties newer first."""
    request, terms, statistics = query.request, query.terms, ranking.found.statistics
    rows = text_search.sessions_about(
        connection,
        request.chat.chat_id,
        lexemes_of(terms),
        session_key=request.session_key,
        session_id=request.session_id,
        since=request.filter.since,
        until=request.filter.until,
    )
    cosines = best_cosines(
        [
            vector_search.session_cosines(connection, request.scope, *each.embedded) if each.embedded else {}
            for each in terms.queries
        ]
    )
    hits = allowed(connection, query, ranking.hits)
    best = dict(rank.rank_sessions(hits))
    top = max((hit.score for hit in best.values()), default=0.0)
    held = terms_by_session(hits)

    def share(words: Collection[str]) -> float:
        """Return the share of the question's words, or of another query's if that counts more."""
        others = (
            OTHER_QUERY_WEIGHT * share_of_words(words, other.lexemes, of_query)
            for other, of_query in zip(terms.others, statistics.others, strict=True)
        )
        return max([share_of_words(words, terms.lexemes, statistics), *others])

    def scored(row: Row[Any]) -> ScoredSession:
        hit = best.get(row.id)
        words = held.get(row.id, set()) | set(row.words or ())
        cosine = cosines.get(row.id, (hit.candidate.best_cosine or 0.0) if hit else 0.0)
        components = {
            "words": share(words),
            "meaning": cosine,
            "best_message": max(0.0, hit.score / top) if hit and top > 0 else 0.0,
        }
        return ScoredSession(row.id, sum(components.values()) / 3, components)

    newest_first = sorted(rows, key=lambda row: (row.ended_at, row.id), reverse=True)
    return sorted(map(scored, newest_first), key=lambda session: -session.score)


def narrow(
    connection: Connection, query: PreparedQuery, ranking: Ranking, parameters: Parameters
) -> Narrowing:
    """Choose the best sessions, or none if the best does not fit well enough."""
    scored = score_sessions(connection, query, ranking)
    fits = scored and scored[0].fit >= parameters.min_session_fit
    sessions = parameters.sessions if fits else 0
    best = load_sessions(connection, scored[: sessions + RELATED_CONSIDERED])
    return Narrowing(chosen=best[:sessions], others=best[sessions:])


def load_sessions(
    connection: Connection, scored: Sequence[tuple[int, float, Mapping[str, float]]]
) -> list[RetrievedSession]:
    """Load the sessions of each `(id, score, components)`."""
    rows = {row.id: row for row in stored_sessions.cards(connection, [session for session, _, _ in scored])}
    return [
        _retrieved(row, score, components)
        for session, score, components in scored
        if (row := rows.get(session)) is not None
    ]


def of_time(connection: Connection, query: PreparedQuery) -> list[RetrievedSession]:
    """Load the sessions of the time that a question is about, in order; what was said later is left out."""
    request, spans = query.request, query.question.spans
    start, until = min(start for start, _ in spans), max(end for _, end in spans)
    rows = stored_sessions.of_time(
        connection,
        request.chat.chat_id,
        start,
        min(until, request.as_of or until),
        session_key=request.session_key,
        limit=MAX_OVERVIEW_SESSIONS,
    )
    return [_retrieved(row) for row in rows if request.as_of is None or row.ended_at < request.as_of]


def _retrieved(
    row: Row[Any], score: float = 0.0, components: Mapping[str, float] = _NONE
) -> RetrievedSession:
    return RetrievedSession(
        id=row.id,
        started_at=row.started_at,
        ended_at=row.ended_at,
        summary=row.summary_text,
        is_described=row.summary_model not in (None, EXTRACTIVE),
        participants=row.participants,
        topics=row.topic_tags,
        entities=row.entities,
        session_key=row.session_key,
        message_count=row.message_count,
        score=score,
        components=components,
    )


def sharing_topics(
    chosen: Sequence[RetrievedSession], others: Sequence[RetrievedSession]
) -> list[tuple[list[str], RetrievedSession]]:
    """Return the others that share topics or entities with the chosen ones, and which, most shared first."""
    topics = {topic.casefold() for session in chosen for topic in (*session.topics, *session.entities)}
    shared = [
        (sorted({t for t in (*session.topics, *session.entities) if t.casefold() in topics}), session)
        for session in others
    ]
    return sorted((s for s in shared if s[0]), key=lambda s: (-len(s[0]), -s[1].score))
