"""Find and rank everything that may be shown for a question.

A search may be narrowed to the few sessions that fit a question: no messages but theirs are compared and ranked. A
session is chosen by its summary first: its score is the sum of the parts that `narrowed_search` finds it by, plus
`MESSAGE_WEIGHT` times the score of its best message as a share of the best of all. It fits as probably as its messages
answer the question, by the judge of relevance.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from datetime import datetime
from operator import mul

from sqlalchemy import Connection

from pipeline.clients.protocols import Reranker
from pipeline.recall.find.candidates import Candidate, CandidateSet, narrowed_candidates, retrieve
from pipeline.recall.find.retrieved import (
    RetrievedMemory,
    RetrievedSession,
    RetrievedWeek,
    find_linked,
    find_memories,
    find_weeks,
    load_overview,
    load_sessions,
    memory_scope,
)
from pipeline.recall.profiles import OTHER_QUERY_WEIGHT
from pipeline.recall.rank import rank
from pipeline.recall.rank.rank import Ranking, Scored, ranking_of, terms_by_session
from pipeline.recall.relevance import By, Evidence, evidence_of, judged_by
from pipeline.recall.request import Request, Stopwatch
from pipeline.store import vectors
from pipeline.store.connections.database import Database
from pipeline.store.memories.memory_candidates import MemoryScope
from pipeline.store.search import narrowed_search, text_search
from pipeline.store.search.narrowed_search import Narrowed, SessionsAsked
from schemas.errors import ProviderRejected, ProviderUnavailable
from schemas.sessions import Message
from schemas.vectors import Calibration, Vector


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
    return sorted(scored.items(), key=lambda session: -sum(session[1].values()))


@dataclass(frozen=True, kw_only=True)
class Ranked:
    """Everything found for a context, ranked."""

    # None: nothing was searched
    retrieved: CandidateSet | None = None
    ranked: Sequence[Scored] = ()
    sessions: Sequence[RetrievedSession] = ()
    # None: the messages of all sessions are shown
    narrowing: Narrowing | None = None
    # newest first
    recent: Sequence[Message] = ()
    memories: Sequence[RetrievedMemory] = ()
    weeks: Sequence[RetrievedWeek] = ()
    # all sessions of the time that the question asks to sum up, in order
    overview: Sequence[RetrievedSession] = ()
    # number of memories that may not be shown here; counted for an explanation
    hidden_memories: int = 0
    # messages that rank lower only because they are too similar to better ones
    passed_over: frozenset[int] = frozenset()
    # whether the chat knows; None: not judged
    evidence: Evidence | None = None
    # what memories and passages are judged by
    judged_by: By = "words"
    # what could not be done
    degraded: Sequence[str] = ()

    @property
    def fell_back(self) -> bool:
        """Whether no session fits well enough, so that messages of all of them are shown."""
        return self.narrowing is not None and not self.narrowing.chosen


# Ranked sessions whose summaries are read.
SESSIONS_READ = 12


def gather_ranked(
    database: Database,
    tenant_id: str,
    request: Request,
    stopwatch: Stopwatch,
    reranker: Reranker | None = None,
) -> Ranked:
    """Gather everything that may be shown, ranked; `reranker` is called outside any transaction."""
    shows_history = request.include_history and request.parameters.history_tokens
    recent = request.snapshot.recent if shows_history else ()
    if not request.memory:
        return Ranked(recent=recent)
    with database.tenant(tenant_id, keeps_plans=request.keeps_plans) as connection:
        results = replace(_search(connection, request, stopwatch), recent=recent)
        if reranker is None:
            return _reordered(connection, request, _judged(request, results, stopwatch), stopwatch)
    # judged as ranked: a reranker's scores are on a scale of their own
    results = _reranked(request, _judged(request, results, stopwatch), reranker, stopwatch)
    with database.tenant(tenant_id) as connection:
        return _reordered(connection, request, results, stopwatch)


def _judged(request: Request, results: Ranked, stopwatch: Stopwatch) -> Ranked:
    with stopwatch.timed("rank"):
        evidence = evidence_of(request, results.ranked, results.retrieved)
    return replace(results, evidence=evidence, judged_by=judged_by(request))


def _search(connection: Connection, request: Request, stopwatch: Stopwatch) -> Ranked:
    """Rank messages and find memories; if the profile narrows, only messages of sessions that fit, if any does."""
    parameters = request.parameters
    scope, narrowing = memory_scope(request), None
    if (parameters.narrows or parameters.min_session_fit) and parameters.sessions:
        with stopwatch.timed("narrow"):
            narrowing = narrow(
                connection,
                request,
                sessions=parameters.sessions,
                min_fit=parameters.min_session_fit or None,
                memories=scope,
            )
    if narrowing is not None and narrowing.chosen:
        ranking = narrowing.ranking
    else:
        with stopwatch.timed("retrieve"):
            retrieved = retrieve(connection, request, scope)
        with stopwatch.timed("rank"):
            ranking = ranking_of(request, retrieved)
    with stopwatch.timed("retrieve"):
        linked = find_linked(connection, request, scope)
        memories, hidden = find_memories(connection, request, scope, ranking.retrieved.memories, linked)
        weeks = find_weeks(connection, request)
        overview = (
            load_overview(connection, request) if request.question.overview and parameters.sessions else []
        )
    return Ranked(
        retrieved=ranking.retrieved,
        ranked=ranking.hits,
        narrowing=narrowing,
        memories=memories,
        weeks=weeks,
        overview=overview,
        hidden_memories=hidden,
    )


def _reranked(request: Request, results: Ranked, reranker: Reranker, stopwatch: Stopwatch) -> Ranked:
    """Rerank the best messages by a cross-encoder; if it fails, keep their order and say so in `degraded`."""
    best = [hit.candidate.message.content for hit in results.ranked[: rank.MAX_RERANKED]]
    if not best:
        return results
    with stopwatch.timed("reranker"):
        try:
            scores = reranker.scores(request.question.text, best)
        except (ProviderUnavailable, ProviderRejected) as error:
            return replace(results, degraded=(f"reranker: {error}: ranked without",))
        return replace(results, ranked=rank.add_reranker_scores(results.ranked, scores))


def _reordered(connection: Connection, request: Request, results: Ranked, stopwatch: Stopwatch) -> Ranked:
    """Add the sessions, and order everything as the profile asks."""
    parameters, as_of = request.parameters, request.as_of
    now, ranked = request.snapshot.now, results.ranked
    with stopwatch.timed("sessions"):
        if results.narrowing is not None:
            sessions = [*results.narrowing.chosen, *results.narrowing.others][:SESSIONS_READ]
        else:
            best = rank.rank_sessions(ranked)[:SESSIONS_READ]
            sessions = load_sessions(connection, [(session, hit.score, hit.parts) for session, hit in best])
        if as_of is not None:
            # a summary would tell what was said after `as_of`
            sessions = [session for session in sessions if session.ended_at < as_of]
    passed_over: frozenset[int] = frozenset()
    with stopwatch.timed("rerank"):
        if parameters.is_blended and results.retrieved is not None:
            words = results.retrieved.statistics.document_frequency.keys()
            sessions = _blended(sessions, ranked, words, now)
            ranked = rank.blended(ranked, len(words), now)
        if parameters.daily_decay < 1:
            ranked = rank.faded(ranked, now, parameters.daily_decay)
        if parameters.mmr_lambda < 1:
            before = {hit.candidate.id for hit in ranked[: parameters.messages]}
            ranked = rank.diverse(ranked, parameters.mmr_lambda, _similarity_of(connection, request, ranked))
            passed_over = frozenset(before - {hit.candidate.id for hit in ranked[: parameters.messages]})
    return replace(results, ranked=ranked, sessions=sessions, passed_over=passed_over)


def _blended(
    sessions: Sequence[RetrievedSession], ranked: Sequence[Scored], words: Set[str], now: datetime
) -> list[RetrievedSession]:
    """Order sessions by the same blend as messages; `words` are the question's."""
    terms = terms_by_session(ranked)
    best = max((session.score for session in sessions), default=0.0)
    blended = []
    for session in sessions:
        overlap = len(words & terms.get(session.id, set())) / max(len(words), 1)
        parts = rank.blend_parts(
            {"ranking": session.score}, best, now - session.ended_at, overlap, rank.SESSION_FACTOR
        )
        blended.append(replace(session, score=sum(parts.values()), components=parts))
    return sorted(blended, key=lambda s: (s.score, s.ended_at, s.started_at, s.session_key), reverse=True)


def _similarity_of(
    connection: Connection, request: Request, ranked: Sequence[Scored]
) -> Callable[[Candidate, Candidate], float]:
    """Return the similarity of two messages: the cosine of their vectors, or the overlap of their words if one has
    none.
    """
    stored: dict[int, Vector] = {}
    scale = Calibration(slope=1.0, height=0.0)
    if request.embedded:
        scale = request.embedded[0].documents or scale
        best = [hit.candidate.id for hit in ranked[: rank.MMR_TOP]]
        stored = vectors.of_messages(connection, request.embedded[0], request.chat.chat_id, best)

    def alike(one: Candidate, other: Candidate) -> float:
        if one.id in stored and other.id in stored:
            return max(
                0.0, scale.height + scale.slope * float(sum(map(mul, stored[one.id], stored[other.id])))
            )
        return rank.overlap(one, other)

    return alike
