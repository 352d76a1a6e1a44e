"""Narrow a search to the few sessions that fit a question: no messages but theirs are compared and ranked.

A session fits by half the share of the question's words that it holds, each weighed by its rarity (BM25's idf), plus
the cosine of its summary, or of its best message as long as it has none. `min_similarity` is compared with that.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlalchemy import Connection

from pipeline.ranking.model import OTHER_QUERY_WEIGHT
from pipeline.ranking.similarity import share_of_words
from pipeline.retrieval.candidates import narrowed_candidates
from pipeline.retrieval.message_ranking import Ranking, allowed, ranking_of, terms_by_session
from pipeline.retrieval.prepare import PreparedQuery
from pipeline.retrieval.sessions import RetrievedSession, load_sessions
from pipeline.store import narrowed_search
from pipeline.store.memory_candidates import MemoryScope
from pipeline.store.narrowed_search import FoundSession, Narrowed, SessionsAsked

# Sessions after the chosen ones that may be related to them.
RELATED_CONSIDERED = 12
# Of each session the messages nearest to the question that are ranked.
MESSAGES = 12
# What all the words of a question count where a cosine counts itself.
WORDS = 0.5


@dataclass(frozen=True, kw_only=True)
class Narrowing:
    """The sessions worth looking into, or none if none fits well enough, with the next best and the messages."""

    chosen: Sequence[RetrievedSession]
    others: Sequence[RetrievedSession]
    # of the messages of those that were looked into
    ranking: Ranking


def narrow(
    connection: Connection,
    query: PreparedQuery,
    *,
    sessions: int,
    min_fit: float,
    messages: int = MESSAGES,
    memories: MemoryScope | None = None,
) -> Narrowing:
    """Look into the best `sessions` and choose those of them that fit by `min_fit`; the best first."""
    request, terms = query.request, replace(query.terms, memories=memories)
    asked = SessionsAsked(
        session_id=request.session_id,
        since=request.filter.since,
        until=request.filter.until,
        times=terms.spans,
        most=sessions + RELATED_CONSIDERED,
        looked_into=sessions,
        messages=messages,
    )
    found = [
        narrowed_search.search(
            connection,
            request.scope,
            each.lexemes,
            each.embedded,
            asked,
            messages=request.prelude.size,
            mean_size=request.chat.mean_length,
            memories=memories,
        )
        for each in terms.queries
    ]
    ranking = ranking_of(query, narrowed_candidates(connection, request, terms, found))
    inside = {hit.candidate.session for hit in ranking.hits}
    held = terms_by_session(ranking.hits)
    nearest: dict[int, float] = {}
    for candidate in (hit.candidate for hit in ranking.hits):
        nearest[candidate.session] = max(nearest.get(candidate.session, 0.0), candidate.best_cosine or 0.0)

    def fit(session: FoundSession) -> float:
        words = share_of_words(
            held.get(session.id, set()) | set(session.held), terms.lexemes, ranking.found.statistics
        )
        return WORDS * words + (nearest.get(session.id, 0.0) if session.cosine is None else session.cosine)

    best = _merged(found)
    fits = {each.id: fit(each) for each in best}
    loaded = load_sessions(connection, [(each.id, each.score, each.parts) for each in best])
    loaded = [replace(each, fit=fits[each.id]) for each in loaded]
    looked = [each for each in loaded if each.id in inside][:sessions]
    chosen = [each for each in looked if each.fit >= min_fit]
    taken = {each.id for each in chosen}
    return Narrowing(
        chosen=chosen,
        others=[each for each in loaded if each.id not in taken],
        ranking=ranking._replace(
            hits=[hit for hit in allowed(connection, query, ranking.hits) if hit.candidate.session in taken]
        ),
    )


def _merged(found: Sequence[Narrowed]) -> list[FoundSession]:
    """Return the sessions that the question or another query finds, each by its best score, best first."""
    own, *others = found
    best = {each.id: each for each in own.sessions}
    for session in (session for each in others for session in each.sessions):
        parts = {name: OTHER_QUERY_WEIGHT * value for name, value in session.parts.items()}
        other = replace(session, parts=parts)
        if session.id not in best or best[session.id].score < other.score:
            best[session.id] = other
    return sorted(best.values(), key=lambda each: (-each.score, -each.id))
