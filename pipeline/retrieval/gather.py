"""Gather everything that may be shown for a query, ranked."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import mul

from sqlalchemy import Connection

from pipeline.clients.protocols import Reranker
from pipeline.ranking import rank, rerank
from pipeline.ranking.model import Candidate, Scored
from pipeline.ranking.similarity import Scale
from pipeline.retrieval.candidates import CandidateSet, retrieve
from pipeline.retrieval.decisions import with_decisions
from pipeline.retrieval.memory_search import RetrievedMemory, find_memories
from pipeline.retrieval.message_ranking import RankedMessages, terms_by_session
from pipeline.retrieval.request import PreparedQuery, Stopwatch
from pipeline.retrieval.sessions import Narrowing, RetrievedSession, narrow
from pipeline.store import messages, summaries, vectors
from pipeline.store.database import Database
from schemas.errors import ProviderRejected, ProviderUnavailable
from schemas.sessions import Message
from schemas.vectors import Vector

# Recent messages read to fill the history.
RECENT_READ = 60
# Ranked sessions whose summaries are read.
SESSIONS_READ = 12


@dataclass(frozen=True, kw_only=True)
class RetrievalResult:
    """Everything that a context is assembled from."""

    # None: nothing was searched
    retrieved: CandidateSet | None = None
    ranked: Sequence[Scored] = ()
    sessions: Sequence[RetrievedSession] = ()
    # the sessions that fit well enough to look only into them; empty: none does; None: there was no such choice
    narrowed_to: frozenset[int] | None = None
    # newest first
    recent: Sequence[Message] = ()
    memories: Sequence[RetrievedMemory] = ()
    # how many more there are that may not be shown here; counted for an explanation
    hidden_memories: int = 0
    # messages that rank lower only because they are too similar to better ones
    passed_over: frozenset[int] = frozenset()
    # what could not be done
    degraded: Sequence[str] = ()

    @property
    def fell_back(self) -> bool:
        """Whether no session fits well enough, so that messages of all of them are shown."""
        return self.narrowed_to is not None and not self.narrowed_to

    @property
    def scale(self) -> Scale:
        """The range of the cosines of all that was found."""
        mean = self.retrieved.statistics.mean_cosine if self.retrieved else 0.0
        cosines = (hit.candidate.cosine for hit in self.ranked)
        return Scale.of([*cosines, *(memory.cosine for memory in self.memories)], mean)

    def is_outside(self, session: int | None) -> bool:
        """Whether other sessions than this were chosen."""
        return bool(self.narrowed_to) and session not in (self.narrowed_to or ())

    @property
    def looked_into(self) -> list[Scored]:
        """The ranked messages of the chosen sessions."""
        return [hit for hit in self.ranked if not self.is_outside(hit.candidate.session)]


@dataclass(frozen=True, kw_only=True)
class _Searched:
    """What a search found, before the profile's order."""

    retrieved: CandidateSet
    ranked: Sequence[Scored]
    narrowing: Narrowing | None
    memories: Sequence[RetrievedMemory]
    hidden_memories: int


def gather(
    database: Database,
    tenant_id: str,
    query: PreparedQuery,
    stopwatch: Stopwatch,
    reranker: Reranker | None = None,
) -> RetrievalResult:
    """Gather everything that may be shown, ranked; `reranker` is called outside any transaction."""
    request = query.request
    recent: Sequence[Message] = ()
    with database.tenant(tenant_id) as connection:
        if request.include_history and request.parameters.history_tokens:
            recent = messages.recent(connection, request.chat.chat_id, RECENT_READ, request.history_key)
        if not request.memory:
            return RetrievalResult(recent=recent)
        searched = _search(connection, query, stopwatch)
        if reranker is None:
            return _ordered(connection, query, searched, searched.ranked, recent, stopwatch)
    ranked, degraded = _reranked(query, searched.ranked, reranker, stopwatch)
    with database.tenant(tenant_id) as connection:
        return _ordered(connection, query, searched, ranked, recent, stopwatch, degraded)


def _search(connection: Connection, query: PreparedQuery, stopwatch: Stopwatch) -> _Searched:
    """Rank messages and find memories; if the profile narrows, the messages of the best sessions come first."""
    request = query.request
    with stopwatch.timed("retrieve"):
        retrieved = with_decisions(connection, query, retrieve(connection, request, query.terms))
        memories, hidden = find_memories(connection, query)
    with stopwatch.timed("rank"):
        ranked = rank.rank(query.question, retrieved.candidates, retrieved.statistics, request.weights)
    narrowing = None
    if request.parameters.min_session_fit and request.parameters.sessions:
        with stopwatch.timed("narrow"):
            narrowing = narrow(
                connection,
                query,
                RankedMessages(
                    hits=ranked, statistics=retrieved.statistics, vector_search=retrieved.vector_search
                ),
                sessions=request.parameters.sessions,
                min_fit=request.parameters.min_session_fit,
            )
        inside = {hit.candidate.id for hit in narrowing.hits}
        ranked = [*narrowing.hits, *(hit for hit in ranked if hit.candidate.id not in inside)]
    return _Searched(
        retrieved=retrieved, ranked=ranked, narrowing=narrowing, memories=memories, hidden_memories=hidden
    )


def _reranked(
    query: PreparedQuery, ranked: Sequence[Scored], reranker: Reranker, stopwatch: Stopwatch
) -> tuple[Sequence[Scored], tuple[str, ...]]:
    """The messages after a cross-encoder read the best, and why not if it did not answer."""
    best = [hit.candidate.text for hit in ranked[: rerank.READ]]
    if not best:
        return ranked, ()
    with stopwatch.timed("reranker"):
        try:
            return rerank.read_again(ranked, reranker.scores(query.question.text, best)), ()
        except (ProviderUnavailable, ProviderRejected) as error:
            return ranked, (f"reranker: {error}: ranked without",)


def _ordered(
    connection: Connection,
    query: PreparedQuery,
    searched: _Searched,
    ranked: Sequence[Scored],
    recent: Sequence[Message],
    stopwatch: Stopwatch,
    degraded: Sequence[str] = (),
) -> RetrievalResult:
    """The sessions of the ranked messages, and all of it in the order that the profile asks for."""
    parameters, narrowing = query.request.parameters, searched.narrowing
    with stopwatch.timed("sessions"):
        sessions = _sessions(connection, ranked, narrowing)
    passed_over: frozenset[int] = frozenset()
    with stopwatch.timed("rerank"):
        if parameters.blend is not None:
            terms = len(searched.retrieved.statistics.document_frequency)
            sessions = _blended(query, sessions, ranked, terms, parameters.blend)
            ranked = rerank.blend(
                ranked,
                terms,
                query.now,
                weights=parameters.blend,
                half_life_hours=parameters.half_life_hours,
                covered=[session.id for session in sessions if session.summary][: parameters.sessions],
                covered_factor=parameters.covered_factor,
            )
        if parameters.daily_decay < 1:
            ranked = rerank.faded(ranked, query.now, parameters.daily_decay)
        if parameters.mmr_lambda < 1:
            before = {hit.candidate.id for hit in ranked[: parameters.messages]}
            ranked = rerank.diverse(ranked, parameters.mmr_lambda, _alike(connection, query, ranked))
            passed_over = frozenset(before - {hit.candidate.id for hit in ranked[: parameters.messages]})
    return RetrievalResult(
        retrieved=searched.retrieved,
        ranked=ranked,
        sessions=sessions,
        narrowed_to=None if narrowing is None else frozenset(s.row.id for s in narrowing.chosen),
        recent=recent,
        memories=searched.memories,
        hidden_memories=searched.hidden_memories,
        passed_over=passed_over,
        degraded=degraded,
    )


def _blended(
    query: PreparedQuery,
    sessions: Sequence[RetrievedSession],
    ranked: Sequence[Scored],
    terms: int,
    shares: tuple[float, float, float],
) -> list[RetrievedSession]:
    """Order the sessions by the same blend as their messages."""
    held = terms_by_session(ranked)
    blended = rerank.blend_sessions(
        [
            rerank.Whole(
                id=session.id,
                score=session.score,
                ended_at=session.ended_at,
                overlap=len(held.get(session.id, ())) / max(terms, 1),
            )
            for session in sessions
        ],
        query.now,
        weights=shares,
        half_life_hours=query.request.parameters.half_life_hours,
        boost=query.request.parameters.session_boost,
    )
    by_id = {session.id: session for session in sessions}
    return [replace(by_id[i], score=sum(parts.values()), components=parts) for i, parts in blended]


def _alike(
    connection: Connection, query: PreparedQuery, ranked: Sequence[Scored]
) -> Callable[[Candidate, Candidate], float]:
    """The similarity of two messages: the cosine of their vectors, or the overlap of their words if one has none."""
    stored: dict[int, Vector] = {}
    if query.terms.space is not None:
        best = [hit.candidate.id for hit in ranked[: rerank.MMR_TOP]]
        stored = vectors.of_messages(connection, query.terms.space, best)

    def alike(one: Candidate, other: Candidate) -> float:
        if one.id in stored and other.id in stored:
            return max(0.0, float(sum(map(mul, stored[one.id], stored[other.id]))))
        return rerank.overlap(one, other)

    return alike


def _sessions(
    connection: Connection, ranked: Sequence[Scored], narrowing: Narrowing | None
) -> list[RetrievedSession]:
    """The best sessions: those narrowed to and the next, or those of the best messages."""
    best: list[tuple[int, float, Mapping[str, float]]]
    if narrowing is not None:
        best = [(each.row.id, each.score, each.parts) for each in (*narrowing.chosen, *narrowing.others)]
    else:
        best = [(session, hit.score, hit.parts) for session, hit in rank.rank_sessions(ranked)]
    best = best[:SESSIONS_READ]
    rows = {row.id: row for row in summaries.cards(connection, [session for session, _, _ in best])}
    return [
        RetrievedSession(
            id=session,
            started_at=row.started_at,
            ended_at=row.ended_at,
            summary=row.summary_text,
            topics=row.topic_tags,
            entities=row.entities,
            session_key=row.session_key,
            message_count=row.message_count,
            score=score,
            components=parts,
        )
        for session, score, parts in best
        if (row := rows.get(session)) is not None
    ]
