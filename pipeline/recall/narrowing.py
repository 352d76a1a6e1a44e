"""Narrow a search to the few sessions that fit a question: no messages but theirs are compared and ranked.

A session's score is the score of its best message as a share of the best of all, plus a quarter of each of the four
parts that `narrowed_search` finds it by. It fits by half the share of the question's words that it holds, each weighed
by its rarity (BM25's idf), plus the cosine of its summary, or of its best message as long as it has none:
`min_similarity` is compared with that.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from sqlalchemy import Connection

from pipeline.recall.find.candidates import narrowed_candidates
from pipeline.recall.find.sessions import RetrievedSession, load_sessions
from pipeline.recall.profiles import OTHER_QUERY_WEIGHT
from pipeline.recall.rank.features import share_of_words
from pipeline.recall.rank.rank import Ranking, Scored, ranking_of, terms_by_session
from pipeline.recall.request import Request
from pipeline.store.memories.memory_candidates import MemoryScope
from pipeline.store.search import narrowed_search, text_search
from pipeline.store.search.narrowed_search import Narrowed, SessionsAsked


@dataclass(frozen=True, kw_only=True)
class Narrowing:
    """The sessions that fit well enough, the next best ones, and the ranked messages of the former."""

    chosen: Sequence[RetrievedSession]
    others: Sequence[RetrievedSession]
    # only messages of the chosen sessions
    ranking: Ranking


def allowed(connection: Connection, request: Request, hits: Sequence[Scored]) -> Sequence[Scored]:
    """Return the hits that the request's filter lets through."""
    if request.filter.is_open:
        return hits
    ids = [hit.candidate.id for hit in hits]
    passing = text_search.allowed(connection, request.chat.chat_id, request.filter, ids)
    return [hit for hit in hits if hit.candidate.id in passing]


# Sessions searched beyond the chosen ones, and candidates for related sessions.
LOOKED_BEYOND, RELATED_CONSIDERED = 5, 12
# Messages ranked per session, the nearest to the question.
MAX_MESSAGES = 8
# Weight of each part of a session's own, where its best message counts 1.
SESSION_PART_WEIGHT = 0.25
# Weight of the question's words in the fit, where the cosine counts 1.
WORDS_WEIGHT = 0.5


def narrow(
    connection: Connection,
    request: Request,
    *,
    sessions: int,
    min_fit: float,
    memories: MemoryScope | None = None,
) -> Narrowing:
    """Choose, best first, those of the best `sessions` whose fit is at least `min_fit`."""
    criteria = SessionsAsked(
        session_id=request.session_id,
        since=request.filter.since,
        until=request.filter.until,
        times=request.question.times,
        most=sessions + RELATED_CONSIDERED,
        looked_into=sessions + LOOKED_BEYOND,
        messages=MAX_MESSAGES,
    )
    searches = [
        narrowed_search.search(connection, request.scope, q.lexemes, q.embedded, criteria, memories)
        for q in request.queries
    ]
    ranking = ranking_of(request, narrowed_candidates(connection, request, searches))
    ranking = ranking._replace(hits=list(allowed(connection, request, ranking.hits)))
    scored = _scored(request, ranking, searches)
    fit = {s.id: s.fit for s in scored}
    loaded = [
        replace(session, fit=fit[session.id])
        for session in load_sessions(connection, [(s.id, s.score, s.parts) for s in scored])
    ]
    chosen = [session for session in loaded[:sessions] if session.fit >= min_fit]
    chosen_ids = {session.id for session in chosen}
    return Narrowing(
        chosen=chosen,
        others=[session for session in loaded if session.id not in chosen_ids],
        ranking=ranking._replace(hits=[hit for hit in ranking.hits if hit.candidate.session in chosen_ids]),
    )


class _Scored(NamedTuple):
    """A session, the parts of its score, and how well it fits."""

    id: int
    parts: Mapping[str, float]
    fit: float

    @property
    def score(self) -> float:
        return sum(self.parts.values())


def _scored(request: Request, ranking: Ranking, searches: Sequence[Narrowed]) -> list[_Scored]:
    """Score the sessions of all queries, best first; a session counts by the query that it fits best."""
    held, first = terms_by_session(ranking.hits), ranking.retrieved.statistics
    cosines: dict[int, float] = {}
    best: dict[int, float] = {}
    for hit in ranking.hits:
        session = hit.candidate.session
        best.setdefault(session, max(hit.score, 0.0))
        cosines[session] = max(cosines.get(session, 0.0), hit.candidate.best_cosine or 0.0)
    top = max(best.values(), default=0.0) or 1.0
    scored: dict[int, _Scored] = {}
    for terms, statistics, search in zip(request.queries, (first, *first.others), searches, strict=True):
        weight = 1.0 if statistics is first else OTHER_QUERY_WEIGHT
        for row in search.sessions:
            parts = {name: weight * SESSION_PART_WEIGHT * value for name, value in row.parts.items()}
            words = share_of_words(held.get(row.id, set()) | set(row.held), terms.lexemes, statistics)
            cosine = cosines.get(row.id, 0.0) if row.cosine is None else row.cosine
            fit = weight * (WORDS_WEIGHT * words + cosine)
            if row.id not in scored or scored[row.id].fit < fit:
                scored[row.id] = _Scored(row.id, parts | {"best_message": best.get(row.id, 0.0) / top}, fit)
    return sorted(scored.values(), key=lambda session: (-session.score, -session.id))
