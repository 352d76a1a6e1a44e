"""Rank the messages of a scope, judge them, and filter them."""

from collections import defaultdict
from collections.abc import Iterable, Sequence

from sqlalchemy import Connection

from pipeline.recall.ask.ask import Ask
from pipeline.recall.find.candidates import CandidateSet, retrieve, trust
from pipeline.recall.rank import rank
from pipeline.recall.rank.ranked import Ranking, Scored
from pipeline.recall.relevance import judge
from pipeline.recall.relevance.evidence import By, Evidence
from pipeline.store.search import text_search


def rank_messages(connection: Connection, query: Ask) -> Ranking:
    """Rank messages as a context does; with a filter, rank the matching ones with their neighbours."""
    return ranking_of(query, retrieve(connection, query.request, query.terms))


def ranking_of(query: Ask, retrieved: CandidateSet) -> Ranking:
    """Rank these candidates for a question."""
    hits = rank.rank(query.question, retrieved.candidates, retrieved.statistics, query.request.weights)
    return Ranking(hits, retrieved)


def evidence_of(query: Ask, ranked: Sequence[Scored], retrieved: CandidateSet | None) -> Evidence | None:
    """Judge whether ranked messages answer a question.

    One for a time or for people alone is not judged: whatever was said there and then answers it.
    """
    if retrieved is None or query.question.overview or not query.terms.lexemes:
        return None
    by = judged_by(query)
    if by == "words" and query.question.language != query.request.chat.language:
        # those of another language than the chat's match nothing in it
        return None
    waits = by != "words" and any(
        hit.candidate.cosine is None and not hit.candidate.aside and hit.candidate.text.strip()
        for hit in ranked
    )
    reasons = [*query.degraded, *(["messages wait for their vectors"] if waits else [])]
    if by == "meaning":
        reasons.append("the question is in another language than the chat")
    unsure = "; ".join(reasons)
    return judge.evidence(ranked, retrieved.statistics, by, unsure)


def judged_by(query: Ask) -> By:
    """Return what a question is judged by: by its meaning only where the model knows the languages."""
    embedded, chat = query.terms.embedded, query.request.chat
    if embedded is None or embedded[0].questions is None or trust(chat.language, embedded[0].model) < 1:
        return "words"
    same = query.question.language == chat.language and query.terms.lexemes
    return "both" if same else "meaning"


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
