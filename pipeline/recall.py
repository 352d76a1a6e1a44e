"""Read a query, embed it, and find everything that may be shown for it, ranked."""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from operator import mul
from time import monotonic
from typing import Any
from zoneinfo import ZoneInfo

from sqlalchemy import Connection

from pipeline import question, rank, rerank
from pipeline.blocks import Remembered, SessionCard
from pipeline.clients.protocols import Embedder, Reranker
from pipeline.profiles import Parameters, parameters_for
from pipeline.question import Question
from pipeline.rank import Candidate, Scored, Weights
from pipeline.retrieve import Retrieved, retrieve
from pipeline.store import audience, chats, keywords, memories, messages, sessions, spaces, summaries, vectors
from pipeline.store.chats import Chat
from pipeline.store.database import Database
from schemas.errors import NotFound, ProviderRejected, ProviderUnavailable
from schemas.payloads import ContextQuery
from schemas.sessions import Message
from schemas.settings import Settings
from schemas.vectors import EmbeddingSpace, Vector

# Recent messages looked at to fill the history.
RECENT = 60
# Ranked sessions whose summaries are read.
SESSIONS_READ = 12


@dataclass(kw_only=True)
class Asked:
    """A query on its way: what was asked where, with what, and what could not be done."""

    chat: Chat
    zone: ZoneInfo
    question: Question
    parameters: Parameters
    weights: Weights
    # the database's clock
    now: datetime
    space: EmbeddingSpace | None = None
    vector: Vector | None = None
    degraded: list[str] = field(default_factory=list)
    timings_ms: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def timed(self, stage: str) -> Iterator[None]:
        """Note how long a stage takes."""
        started = monotonic()
        yield
        self.timings_ms[stage] = round((monotonic() - started) * 1000, 2)


@dataclass(kw_only=True)
class Found:
    """Everything that a context is assembled from."""

    retrieved: Retrieved | None = None
    ranked: list[Scored] = field(default_factory=list)
    sessions: list[tuple[SessionCard, float]] = field(default_factory=list)
    recent: list[Message] = field(default_factory=list)
    memories: list[Remembered] = field(default_factory=list)
    # how many more there are that may not be shown here; counted for an explanation
    hidden_memories: int = 0
    # messages that others stand before only for being less alike
    passed_over: frozenset[int] = frozenset()


def ask(
    database: Database, tenant_id: str, query: ContextQuery, embedder: Embedder | None, settings: Settings
) -> Asked:
    """Read the question and embed it; the model is called outside any transaction."""
    parameters, weights = parameters_for(
        query.profile, {**_configured(query.profile, settings), **query.parameters, **_numbers(query)}
    )
    with database.tenant(tenant_id) as connection:
        chat = chats.get(connection, query.chat_id)
        if chat is None:
            raise NotFound(f"there is no chat {query.chat_id}: see `backscroll chats`")
        people, earliest = sessions.people(connection, query.chat_id)
        now = chats.database_now(connection)
        space = spaces.searched(connection)
    zone = ZoneInfo(chat.time_zone)
    asked = Asked(
        chat=chat,
        zone=zone,
        question=question.read(query.query, people, earliest or now, now.astimezone(zone)),
        parameters=parameters,
        weights=weights,
        now=now,
    )
    if not remembers(chat, settings):
        return asked
    with asked.timed("embed"):
        if space is None:
            asked.degraded.append(
                "vectors: this Postgres has no pgvector, or no space is active: keywords alone"
            )
        elif embedder is None or not space.same_as(embedder.space):
            asked.degraded.append(
                f"vectors: nothing here embeds into the active space {space.name}: keywords alone"
            )
        else:
            try:
                asked.vector = embedder.embed_query(asked.question.content)
                asked.space = space
            except (ProviderUnavailable, ProviderRejected) as error:
                asked.degraded.append(f"vectors: {error}: keywords alone")
    return asked


def remembers(chat: Chat, settings: Settings) -> bool:
    """Whether memory is on: off, messages are kept, and neither made anything of nor searched."""
    return settings.session_memory_enabled and chat.memory


def _configured(profile: str, settings: Settings) -> dict[str, Any]:
    """What the settings say of the default profile; the others are what their names promise."""
    if profile != "balanced":
        return {}
    return {
        "sessions": settings.session_max_retrieved,
        "history_tokens": settings.context_history_tokens,
        "min_importance": settings.memory_min_importance,
    }


def _numbers(query: ContextQuery) -> dict[str, Any]:
    """The query's own fields that are parameters."""
    given = {"top_k_memories": query.top_k_memories, "top_k_documents": query.top_k_documents}
    return {name: number for name, number in given.items() if number is not None}


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
            found.recent = messages.recent(connection, asked.chat.chat_id, RECENT, query.session_key)
        if not remembers(asked.chat, settings):
            return found
        with asked.timed("retrieve"):
            words = keywords.lexemes(connection, asked.chat.language, asked.question.content)
            found.retrieved = retrieve(
                connection,
                asked.chat,
                session_key=query.session_key,
                words=words,
                space=asked.space,
                vector=asked.vector,
                exact=asked.question.exact,
            )
            _find_memories(connection, query, asked, found, words)
        with asked.timed("rank"):
            found.ranked = rank.rank(
                asked.question, found.retrieved.candidates, found.retrieved.statistics, asked.weights
            )
        if reranker is None:
            _choose(connection, asked, found)
            return found
    _read_again(asked, found, reranker)
    with database.tenant(tenant_id) as connection:
        _choose(connection, asked, found)
    return found


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
        found.sessions = _cards(connection, rank.rank_sessions(found.ranked))
    with asked.timed("rerank"):
        _reorder(connection, asked, found)


def _reorder(connection: Connection, asked: Asked, found: Found) -> None:
    """Order what was ranked as the profile asks for."""
    parameters, now = asked.parameters, asked.now
    if parameters.blend is not None and found.retrieved is not None:
        found.sessions = [(card, score * parameters.session_boost) for card, score in found.sessions]
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


def _cards(connection: Connection, best: list[tuple[int, Scored]]) -> list[tuple[SessionCard, float]]:
    rows = {
        row.id: row for row in summaries.cards(connection, [session for session, _ in best[:SESSIONS_READ]])
    }
    return [
        (
            SessionCard(
                id=session,
                started_at=row.started_at,
                ended_at=row.ended_at,
                summary=row.summary_text,
                topics=row.topic_tags,
                entities=row.entities,
            ),
            hit.score,
        )
        for session, hit in best[:SESSIONS_READ]
        if (row := rows.get(session)) is not None
    ]


def _find_memories(
    connection: Connection, query: ContextQuery, asked: Asked, found: Found, words: Sequence[str]
) -> None:
    """The memories that may be shown to whoever is in the chat, best first; `words` are the query's lexemes."""
    wanted = asked.parameters.memories + asked.parameters.documents
    if not wanted:
        return
    seen = audience.seen(connection, asked.chat.chat_id, asked.chat.kind, query.user_id)
    agent_id, min_importance = query.agent_id or None, asked.parameters.min_importance
    rows = memories.relevant(
        connection,
        seen=seen,
        agent_id=agent_id,
        words=words,
        space=asked.space,
        query=asked.vector,
        min_importance=min_importance,
        limit=4 * wanted,
    )
    if query.explain:
        found.hidden_memories = memories.count_hidden(
            connection, seen=seen, agent_id=agent_id, min_importance=min_importance
        )
    # the same may have been learned of a person under two of their ids
    unique = {(row.scope, row.document_id, bytes(row.content_hash)): row for row in reversed(rows)}
    remembered = [
        Remembered(
            id=str(row.id),
            scope=row.scope,
            type=row.type,
            content=row.content,
            source=row.source,
            document_id=row.document_id,
            chunk_index=row.chunk_index,
            score=math.prod(factors.values()),
            components=factors,
        )
        for row in unique.values()
        if row.similarity > 0
        for factors in [
            _factors(row.similarity, row.importance, row.last_accessed_at or row.created_at, asked.now)
        ]
    ]
    found.memories = sorted(remembered, key=lambda memory: (-memory.score, memory.id))


def _factors(similarity: float, importance: float, used_at: datetime, now: datetime) -> dict[str, float]:
    """The factors of a memory's score; `recency` is 1.1 for now and 1 after a month."""
    age_days = max(0.0, (now - used_at).total_seconds() / 86_400)
    return {
        "similarity": similarity,
        "importance": 1 + 0.05 * importance,
        "recency": 1 + 0.1 * max(0.0, 1 - age_days / 30),
    }
