"""Narrow a search to the few sessions that fit a question: no messages but theirs are compared and ranked.

A session is chosen by its summary first: its score is the sum of the parts that `narrowed_search` finds it by, plus
`MESSAGE_WEIGHT` times the score of its best message as a share of the best of all. It fits as probably as its messages
answer the question, by the judge of relevance.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from sqlalchemy import Connection

from pipeline.recall.find.candidates import narrowed_candidates
from pipeline.recall.find.retrieved import RetrievedSession, load_sessions
from pipeline.recall.profiles import OTHER_QUERY_WEIGHT
from pipeline.recall.rank.rank import Ranking, Scored, ranking_of
from pipeline.recall.relevance import evidence_of
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
# Weight of a session's best message, where each of its own parts counts 1; chosen on the chats of part `fit`.
MESSAGE_WEIGHT = 2.0


def narrow(
    connection: Connection,
    request: Request,
    *,
    sessions: int,
    min_fit: float | None = None,
    each: bool = False,
    memories: MemoryScope | None = None,
) -> Narrowing:
    """Choose the best `sessions`, best first, unless the judge finds no evidence in any of them; with `each`, in it.

    With `min_fit`, those of them that fit by at least this.
    """
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
    hits = defaultdict[int, list[Scored]](list)
    for hit in ranking.hits:
        hits[hit.candidate.session].append(hit)
    scored = _scored(hits, searches)
    loaded, fitting = list[RetrievedSession](), set[int]()
    for session in load_sessions(connection, [(id_, sum(parts.values()), parts) for id_, parts in scored]):
        evidence = evidence_of(request, hits[session.id], ranking.retrieved)
        fit = evidence.probability if evidence else 1.0
        fits = fit >= min_fit if min_fit is not None else evidence is None or evidence.level != "none"
        # none of its messages is found where they wait for their vectors
        if fits and hits[session.id]:
            fitting.add(session.id)
        loaded.append(replace(session, fit=fit))
    chosen = loaded[:sessions]
    if each or min_fit is not None or not any(session.id in fitting for session in chosen):
        chosen = [session for session in chosen if session.id in fitting]
    chosen_ids = {session.id for session in chosen}
    return Narrowing(
        chosen=chosen,
        others=[session for session in loaded if session.id not in chosen_ids],
        ranking=ranking._replace(hits=[hit for hit in ranking.hits if hit.candidate.session in chosen_ids]),
    )


def _scored(
    hits: Mapping[int, Sequence[Scored]], searches: Sequence[Narrowed]
) -> list[tuple[int, Mapping[str, float]]]:
    """Return the sessions of all queries, best first, with the parts of their scores, by the query that suits best."""
    best = {session: max(ranked[0].score, 0.0) for session, ranked in hits.items()}
    top = max(best.values(), default=0.0) or 1.0
    scored: dict[int, Mapping[str, float]] = {}
    for number, search in enumerate(searches):
        weight = OTHER_QUERY_WEIGHT if number else 1.0
        for row in search.sessions:
            parts = {name: weight * value for name, value in row.parts.items()}
            parts["best_message"] = MESSAGE_WEIGHT * best.get(row.id, 0.0) / top
            if sum(parts.values()) > sum(scored.get(row.id, {}).values()):
                scored[row.id] = parts
    return sorted(scored.items(), key=lambda session: (-sum(session[1].values()), -session[0]))
