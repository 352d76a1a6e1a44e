"""Score sessions against a query, and narrow a search to the few that fit best.

A session's score is the mean of three parts from 0 to 1:

- `words`: the share of the query's words in its messages or summary, each word weighted by its rarity (BM25's idf);
- `meaning`: the cosine of its summary to the query, or of its best message as long as it has no summary; or how well
  its best message decides what the query asks a decision about, if that is more;
- `best_message`: the score of its best message as a share of the best of all.

It fits by the larger of the first two: that is what `min_similarity` is compared with.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row

from pipeline.ranking import rank
from pipeline.ranking.model import Scored
from pipeline.ranking.similarity import share_of_words
from pipeline.retrieval.candidates import filtered, is_whole
from pipeline.retrieval.message_ranking import (
    RankedMessages,
    allowed,
    terms_by_session,
)
from pipeline.retrieval.request import PreparedQuery
from pipeline.store import text_search, vector_search
from pipeline.store.filters import Filter, Inside

# Sessions that may be related to the chosen ones.
RELATED_CONSIDERED = 12


@dataclass(frozen=True, kw_only=True)
class RetrievedSession:
    """A session that was found, with its final score."""

    id: int
    started_at: datetime
    ended_at: datetime
    summary: str | None
    topics: Sequence[str]
    entities: Sequence[str]
    session_key: str
    message_count: int
    score: float = 0.0
    # what the score is made of
    components: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class ScoredSession:
    """A session with how well it fits a query."""

    row: Row[Any]
    words: float
    meaning: float
    best_message: float

    @property
    def fit(self) -> float:
        """The larger of what it holds and what it is about, from 0 to 1."""
        return max(self.words, self.meaning)

    @property
    def parts(self) -> dict[str, float]:
        """What its score is the mean of."""
        return {"words": self.words, "meaning": self.meaning, "best_message": self.best_message}

    @property
    def score(self) -> float:
        """The mean of its parts."""
        return sum(self.parts.values()) / 3


@dataclass(frozen=True, kw_only=True)
class Narrowing:
    """The sessions worth looking into, or none, with the next best, and the messages that matter."""

    # empty: none fits well enough, and `hits` are those of the whole scope
    chosen: Sequence[ScoredSession]
    others: Sequence[ScoredSession]
    # messages of the chosen sessions, best first
    hits: Sequence[Scored]


def score_sessions(
    connection: Connection, query: PreparedQuery, found: RankedMessages
) -> list[ScoredSession]:
    """Score all sessions that the request's filter lets through, best first; ties newer first."""
    request, terms = query.request, query.terms
    rows = text_search.sessions_about(
        connection,
        request.chat.chat_id,
        terms.lexemes,
        session_key=request.session_key,
        session_id=request.session_id,
        since=request.filter.since,
        until=request.filter.until,
    )
    cosines: Mapping[int, float] = {}
    if terms.space is not None and terms.vector is not None:
        cosines = vector_search.session_cosines(connection, request.scope, terms.space, terms.vector)
    hits = allowed(connection, query, found.hits)
    best = dict(rank.rank_sessions(hits))
    top = max((hit.score for hit in best.values()), default=0.0)
    held = terms_by_session(hits)

    def scored(row: Row[Any]) -> ScoredSession:
        hit = best.get(row.id)
        words = held.get(row.id, set()) | set(row.words or ())
        cosine = cosines.get(row.id, (hit.candidate.cosine or 0.0) if hit else 0.0)
        return ScoredSession(
            row=row,
            words=share_of_words(words, terms.lexemes, found.statistics),
            meaning=max(_decides(query, hit), cosine),
            best_message=max(0.0, hit.score / top) if hit and top > 0 else 0.0,
        )

    return sorted(map(scored, rows), key=lambda s: (-s.score, -s.row.ended_at.timestamp(), -s.row.id))


def narrow(
    connection: Connection, query: PreparedQuery, found: RankedMessages, *, sessions: int, min_fit: float
) -> Narrowing:
    """Choose the best `sessions` with their messages, or none if the best fits by less than `min_fit`."""
    fitting = score_sessions(connection, query, found)
    if not fitting or fitting[0].fit < min_fit:
        return Narrowing(chosen=(), others=fitting[:RELATED_CONSIDERED], hits=found.hits)
    chosen = fitting[:sessions]
    return Narrowing(
        chosen=chosen,
        others=fitting[sessions:][:RELATED_CONSIDERED],
        hits=_messages_of(connection, query, found, chosen),
    )


def _decides(query: PreparedQuery, hit: Scored | None) -> float:
    """How well a session's best message decides what the query asks a decision about, from 0 to 1."""
    weight = query.request.weights.decision
    return max(0.0, hit.parts.get("decision", 0.0) / weight) if hit is not None and weight else 0.0


def _messages_of(
    connection: Connection, query: PreparedQuery, found: RankedMessages, chosen: Sequence[ScoredSession]
) -> list[Scored]:
    """The messages of these sessions, best first."""
    hits, request = found.hits, query.request
    if not is_whole(request.chat):
        # the arms searched the whole chat: search again, in these sessions only
        ranges = [Inside(s.row.session_key, s.row.started_at, s.row.ended_at) for s in chosen]
        candidates = {
            candidate.id: candidate
            for inside in ranges
            for candidate in filtered(connection, request, Filter(session=inside), query.terms)
        }
        hits = rank.rank(query.question, list(candidates.values()), found.statistics, request.weights)
    ids = {session.row.id for session in chosen}
    return [hit for hit in hits if hit.candidate.session in ids]
