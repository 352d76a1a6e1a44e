"""Rank the messages of a scope, and filter them."""

from collections import defaultdict
from collections.abc import Iterable, Sequence

from sqlalchemy import Connection

from pipeline.recall.ask.ask import Ask
from pipeline.recall.find.candidates import CandidateSet, retrieve
from pipeline.recall.rank import rank
from pipeline.recall.rank.ranked import Ranking, Scored
from pipeline.store.search import text_search


def rank_messages(connection: Connection, query: Ask) -> Ranking:
    """Rank messages as a context does; with a filter, rank the matching ones with their neighbours."""
    return ranking_of(query, retrieve(connection, query.request, query.terms))


def ranking_of(query: Ask, retrieved: CandidateSet) -> Ranking:
    """Rank these candidates for a question."""
    hits = rank.rank(query.question, retrieved.candidates, retrieved.statistics, query.request.weights)
    return Ranking(hits, retrieved)


def allowed(connection: Connection, query: Ask, hits: Sequence[Scored]) -> Sequence[Scored]:
    """Return the hits that the request's filter lets through."""
    request = query.request
    if request.filter.is_open:
        return hits
    ids = [hit.candidate.id for hit in hits]
    passing = text_search.allowed(connection, request.chat.chat_id, request.filter, ids)
    return [hit for hit in hits if hit.candidate.id in passing]


def terms_by_session(hits: Iterable[Scored]) -> dict[int, set[str]]:
    """Return the lexemes of all queries that the messages of each session hold."""
    held = defaultdict[int, set[str]](set)
    for candidate in (hit.candidate for hit in hits):
        held[candidate.session].update(candidate.terms, *(other.terms for other in candidate.others))
    return held
