"""Find everything that may be shown for a query, ranked."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import mul

from sqlalchemy import Connection

from pipeline.clients.protocols import Reranker
from pipeline.ranking import rank, rerank
from pipeline.ranking.model import Candidate, Scored
from pipeline.ranking.similarity import Scale
from pipeline.retrieval import memory_search
from pipeline.retrieval.candidates import Retrieved, retrieve
from pipeline.retrieval.decisions import with_decisions
from pipeline.retrieval.found import Remembered, SessionCard
from pipeline.retrieval.narrow import Narrowing, narrow
from pipeline.retrieval.prepare import Asked, remembers
from pipeline.retrieval.scope import Ranked, Searching
from pipeline.store import keyword_search, messages, sessions, vectors
from pipeline.store.database import Database
from pipeline.store.filters import MessageFilter, Scope
from schemas.errors import ProviderRejected, ProviderUnavailable
from schemas.payloads import ContextQuery
from schemas.search import SearchQuery
from schemas.sessions import Message
from schemas.settings import Settings
from schemas.vectors import Vector

# Recent messages looked at to fill the history.
RECENT = 60
# Ranked sessions whose summaries are read.
SESSIONS_READ = 12


@dataclass(kw_only=True)
class Found:
    """Everything that a context is assembled from."""

    retrieved: Retrieved | None = None
    ranked: list[Scored] = field(default_factory=list)
    sessions: list[tuple[SessionCard, float]] = field(default_factory=list)
    # what their scores are made of, by their ids
    session_parts: Mapping[int, Mapping[str, float]] = field(default_factory=dict)
    # none: messages of all sessions are shown
    narrowing: Narrowing | None = None
    recent: list[Message] = field(default_factory=list)
    memories: list[Remembered] = field(default_factory=list)
    # how many more there are that may not be shown here; counted for an explanation
    hidden_memories: int = 0
    # messages that others stand before only for being less alike
    passed_over: frozenset[int] = frozenset()

    @property
    def fell_back(self) -> bool:
        """Whether no session fits well enough to look into it alone, so that messages of all of them are shown."""
        return self.narrowing is not None and not self.narrowing.chosen

    @property
    def scale(self) -> Scale:
        """What the cosines of all that was found are like."""
        mean = self.retrieved.statistics.mean_cosine if self.retrieved else 0.0
        messages = (hit.candidate.cosine for hit in self.ranked)
        return Scale.of([*messages, *(memory.cosine for memory in self.memories)], mean)

    def is_outside(self, session: int | None) -> bool:
        """Whether others were chosen to be looked into than this session."""
        chosen = self.narrowing.chosen if self.narrowing else ()
        return bool(chosen) and all(theme.row.id != session for theme in chosen)

    @property
    def looked_into(self) -> list[Scored]:
        """What was ranked, in the sessions narrowed to alone."""
        return [hit for hit in self.ranked if not self.is_outside(hit.candidate.session)]


def find(
    database: Database,
    tenant_id: str,
    query: ContextQuery,
    asked: Asked,
    settings: Settings,
    reranker: Reranker | None = None,
) -> Found:
    """Everything that may be shown, ranked; `reranker` is called outside any transaction."""
    found = Found()
    with database.tenant(tenant_id) as connection:
        if query.include_history and asked.parameters.history_tokens:
            found.recent = messages.recent(connection, asked.chat.chat_id, RECENT, query.talk_key)
        if not remembers(asked.chat, settings):
            return found
        with asked.timed("retrieve"):
            words = keyword_search.lexemes(connection, asked.chat.language, asked.question.content)
            found.retrieved = retrieve(
                connection,
                asked.chat,
                session_key=query.session_key,
                words=words,
                space=asked.space,
                vector=asked.vector,
                exact=asked.question.exact,
                questions=asked.questions,
            )
            scope = Scope(chat_id=query.chat_id, language=asked.chat.language, session_key=query.session_key)
            found.retrieved = with_decisions(connection, scope, asked, found.retrieved, words)
            found.memories, found.hidden_memories = memory_search.memories_for(
                connection, query, asked, words
            )
        with asked.timed("rank"):
            found.ranked = rank.rank(
                asked.question, found.retrieved.candidates, found.retrieved.statistics, asked.weights
            )
        if asked.parameters.min_session_fit and asked.parameters.sessions:
            with asked.timed("narrow"):
                _narrow(connection, query, asked, found, found.retrieved, words)
        if reranker is None:
            _choose(connection, asked, found)
            return found
    _read_again(asked, found, reranker)
    with database.tenant(tenant_id) as connection:
        _choose(connection, asked, found)
    return found


def _narrow(
    connection: Connection,
    query: ContextQuery,
    asked: Asked,
    found: Found,
    retrieved: Retrieved,
    words: Sequence[str],
) -> None:
    """Look into the best sessions alone; their messages stand before all others."""
    chat = asked.chat
    searching = Searching(
        connection=connection,
        query=SearchQuery(chat_id=chat.chat_id, query=query.query, session_key=query.session_key),
        asked=asked,
        scope=Scope(chat_id=chat.chat_id, language=chat.language, session_key=query.session_key),
        # what was retrieved is in scope
        which=MessageFilter(),
        words=words,
    )
    found.narrowing = narrow(
        searching,
        Ranked(
            hits=found.ranked,
            statistics=retrieved.statistics,
            vector_search=retrieved.vector_search,
        ),
        sessions=asked.parameters.sessions,
        least=asked.parameters.min_session_fit,
    )
    inside = {hit.candidate.id for hit in found.narrowing.hits}
    found.ranked = [
        *found.narrowing.hits,
        *(hit for hit in found.ranked if hit.candidate.id not in inside),
    ]


def _read_again(asked: Asked, found: Found, reranker: Reranker) -> None:
    """Let a cross-encoder read the best; without its answer they stay as they are, and `degraded` says so."""
    best = [hit.candidate.text for hit in found.ranked[: rerank.READ]]
    if not best:
        return
    with asked.timed("reranker"):
        try:
            found.ranked = rerank.read_again(found.ranked, reranker.scores(asked.question.text, best))
        except (ProviderUnavailable, ProviderRejected) as error:
            asked.degraded.append(f"reranker: {error}: ranked without")


def _choose(connection: Connection, asked: Asked, found: Found) -> None:
    """The sessions of what was ranked, and all of it in the order that the profile asks for."""
    with asked.timed("sessions"):
        _choose_sessions(connection, found)
    with asked.timed("rerank"):
        _reorder(connection, asked, found)


def _reorder(connection: Connection, asked: Asked, found: Found) -> None:
    """Order what was ranked as the profile asks for."""
    parameters, now = asked.parameters, asked.now
    if parameters.blend is not None and found.retrieved is not None:
        _blend_sessions(asked, found, parameters.blend)
        shown = [card.id for card, _ in found.sessions if card.summary][: parameters.sessions]
        found.ranked = rerank.blend(
            found.ranked,
            len(found.retrieved.statistics.document_frequency),
            now,
            weights=parameters.blend,
            half_life_hours=parameters.half_life_hours,
            covered=shown,
            covered_factor=parameters.covered_factor,
        )
    if parameters.daily_decay < 1:
        found.ranked = rerank.faded(found.ranked, now, parameters.daily_decay)
    if parameters.mmr_lambda < 1:
        before = {hit.candidate.id for hit in found.ranked[: parameters.messages]}
        found.ranked = rerank.diverse(
            found.ranked, parameters.mmr_lambda, _likeness(connection, asked, found)
        )
        after = {hit.candidate.id for hit in found.ranked[: parameters.messages]}
        found.passed_over = frozenset(before - after)


def _blend_sessions(asked: Asked, found: Found, shares: tuple[float, float, float]) -> None:
    """Order the sessions by the same blend as their messages."""
    held: dict[int, set[str]] = {}
    for hit in found.ranked:
        held.setdefault(hit.candidate.session, set()).update(hit.candidate.terms)
    terms = len(found.retrieved.statistics.document_frequency) if found.retrieved else 0
    blended = rerank.blend_sessions(
        [
            rerank.Whole(
                id=card.id,
                score=score,
                ended_at=card.ended_at,
                overlap=len(held.get(card.id, ())) / max(terms, 1),
            )
            for card, score in found.sessions
        ],
        asked.now,
        weights=shares,
        half_life_hours=asked.parameters.half_life_hours,
        boost=asked.parameters.session_boost,
    )
    cards = {card.id: card for card, _ in found.sessions}
    found.sessions = [(cards[session], sum(parts.values())) for session, parts in blended]
    found.session_parts = dict(blended)


def _likeness(connection: Connection, asked: Asked, found: Found) -> Callable[[Candidate, Candidate], float]:
    """How alike two messages are: the cosine of their vectors, the overlap of their words where one has none."""
    stored: dict[int, Vector] = {}
    if asked.space is not None:
        best = [hit.candidate.id for hit in found.ranked[: rerank.MMR_TOP]]
        stored = vectors.of_messages(connection, asked.space, best)

    def alike(one: Candidate, other: Candidate) -> float:
        if one.id in stored and other.id in stored:
            return max(0.0, float(sum(map(mul, stored[one.id], stored[other.id]))))
        return rerank.overlap(one, other)

    return alike


def _choose_sessions(connection: Connection, found: Found) -> None:
    """The best sessions, with what is known of them: those narrowed to and the next, or those of the best messages."""
    best: list[tuple[int, float, Mapping[str, float]]]
    if found.narrowing is not None:
        themes = [*found.narrowing.chosen, *found.narrowing.others]
        best = [(theme.row.id, theme.score, theme.parts) for theme in themes]
    else:
        best = [(session, hit.score, hit.parts) for session, hit in rank.rank_sessions(found.ranked)]
    best = best[:SESSIONS_READ]
    rows = {row.id: row for row in sessions.cards(connection, [session for session, _, _ in best])}
    found.session_parts = {session: parts for session, _, parts in best}
    found.sessions = [
        (
            SessionCard(
                id=session,
                started_at=row.started_at,
                ended_at=row.ended_at,
                summary=row.summary_text,
                topics=row.topic_tags,
                entities=row.entities,
                session_key=row.session_key,
                message_count=row.message_count,
            ),
            score,
        )
        for session, score, _ in best
        if (row := rows.get(session)) is not None
    ]
