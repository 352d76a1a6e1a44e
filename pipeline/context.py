"""The context for a bot's answer: retrieve, rank, drill down, assemble. The thin module that bots import.

from pipeline.context import build_context, search
"""

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import datetime
from time import monotonic
from typing import Any
from zoneinfo import ZoneInfo

from sqlalchemy import Connection

from pipeline import assemble, blocks, question, rank
from pipeline.blocks import Remembered, SessionCard
from pipeline.clients.protocols import Embedder
from pipeline.profiles import Parameters, parameters_for
from pipeline.question import Question
from pipeline.rank import Scored, Weights
from pipeline.retrieve import Retrieved, retrieve
from pipeline.store import chats, counters, keywords, memories, messages, sessions, spaces, vectors
from pipeline.store.chats import Chat
from pipeline.store.database import Database
from pipeline.tokens import estimate
from schemas.context import (
    Block,
    ChatMessage,
    Context,
    Dropped,
    Explanation,
    Hit,
    MemoryPreview,
)
from schemas.errors import InvalidInput, NotFound, ProviderRejected, ProviderUnavailable
from schemas.payloads import ContextQuery
from schemas.sessions import Message
from schemas.settings import Settings
from schemas.vectors import EmbeddingSpace, Vector

# Recent messages looked at to fill the history.
RECENT = 60
# Ranked sessions whose summaries are read.
SESSIONS_READ = 12
# Hits and drops listed in an explanation.
EXPLAINED = 100


@dataclass(kw_only=True)
class Asked:
    """A query on its way: what was asked where, with what, and what could not be done."""

    chat: Chat
    zone: ZoneInfo
    question: Question
    parameters: Parameters
    weights: Weights
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


def build_context(
    database: Database,
    tenant_id: str,
    query: ContextQuery,
    *,
    embedder: Embedder | None,
    settings: Settings,
) -> Context:
    """What a bot puts before its model to answer a query, within the token budget and with reasons.

    `embedder` is the process's own; without it, or when it does not answer, keywords find alone and
    `degraded` says so. Raises `NotFound` for an unknown chat, `InvalidInput` for a profile, parameter or
    budget that cannot be, `DatabaseUnavailable`.
    """
    started = monotonic()
    asked = _ask(database, tenant_id, query, embedder, settings)
    found = _find(database, tenant_id, query, asked, settings)
    with asked.timed("assemble"):
        context = _assemble(
            query, asked, found, query.budget_tokens or settings.context_budget_tokens, settings
        )
    with asked.timed("note"):
        _note(database, tenant_id, context, found, monotonic() - started)
    if context.explain is not None:
        context.explain.timings_ms.update(asked.timings_ms)
    return context


def search(
    database: Database,
    tenant_id: str,
    query: ContextQuery,
    *,
    limit: int = 10,
    embedder: Embedder | None,
    settings: Settings,
) -> list[Hit]:
    """The best messages of a chat for a query, best first, at most `limit` (up to 100).

    Raises as `build_context` does.
    """
    if not 1 <= limit <= 100:
        raise InvalidInput("limit must be from 1 to 100", field="limit")
    asked = _ask(database, tenant_id, query, embedder, settings)
    found = _find(database, tenant_id, query, asked, settings)
    return _message_hits(found.ranked[:limit])


def _ask(
    database: Database, tenant_id: str, query: ContextQuery, embedder: Embedder | None, settings: Settings
) -> Asked:
    """Read the question and embed it; the model is called outside any transaction."""
    parameters, weights = parameters_for(
        query.profile, {**_configured(query.profile, settings), **query.parameters}
    )
    with database.tenant(tenant_id) as connection:
        chat = chats.get(connection, query.chat_id)
        if chat is None:
            raise NotFound(f"there is no chat {query.chat_id}: see `backscroll chats`")
        people, earliest = sessions.people(connection, query.chat_id)
        now = chats.database_now(connection)
        space = spaces.active(connection) if vectors.exist(connection) else None
    zone = ZoneInfo(chat.time_zone)
    asked = Asked(
        chat=chat,
        zone=zone,
        question=question.read(query.query, people, earliest or now, now.astimezone(zone)),
        parameters=parameters,
        weights=weights,
    )
    if not _remembers(chat, settings):
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


def _remembers(chat: Chat, settings: Settings) -> bool:
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


def _find(database: Database, tenant_id: str, query: ContextQuery, asked: Asked, settings: Settings) -> Found:
    """Everything that may be shown, ranked."""
    found = Found()
    with database.tenant(tenant_id) as connection:
        if query.include_history and asked.parameters.history_tokens:
            found.recent = messages.recent(connection, asked.chat.chat_id, RECENT, query.session_key)
        if not _remembers(asked.chat, settings):
            return found
        with asked.timed("retrieve"):
            found.retrieved = retrieve(
                connection,
                asked.chat,
                session_key=query.session_key,
                content=asked.question.content,
                space=asked.space,
                vector=asked.vector,
            )
            found.memories = _memories(connection, query, asked)
    with asked.timed("rank"):
        found.ranked = rank.rank(
            asked.question, found.retrieved.candidates, found.retrieved.statistics, asked.weights
        )
        best = rank.rank_sessions(found.ranked)
    with asked.timed("sessions"), database.tenant(tenant_id) as connection:
        found.sessions = _cards(connection, best)
    return found


def _cards(connection: Connection, best: list[tuple[int, Scored]]) -> list[tuple[SessionCard, float]]:
    rows = {
        row.id: row for row in sessions.cards(connection, [session for session, _ in best[:SESSIONS_READ]])
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


def _memories(connection: Connection, query: ContextQuery, asked: Asked) -> list[Remembered]:
    wanted = asked.parameters.memories + asked.parameters.documents
    if not wanted:
        return []
    rows = memories.relevant(
        connection,
        user_id=query.user_id,
        agent_id=query.agent_id or None,
        chat_id=query.chat_id,
        words=keywords.lexemes(connection, asked.chat.language, asked.question.content),
        space=asked.space,
        query=asked.vector,
        min_importance=asked.parameters.min_importance,
        limit=4 * wanted,
    )
    now = chats.database_now(connection)
    remembered = [
        Remembered(
            id=str(row.id),
            scope=row.scope,
            type=row.type,
            content=row.content,
            source=row.source,
            document_id=row.document_id,
            chunk_index=row.chunk_index,
            score=_memory_score(row.similarity, row.importance, row.last_accessed_at or row.created_at, now),
        )
        for row in rows
        if row.similarity > 0
    ]
    return sorted(remembered, key=lambda memory: (-memory.score, memory.id))


def _memory_score(similarity: float, importance: float, used_at: datetime, now: datetime) -> float:
    """`similarity · (1 + 0.05 · importance) · recency`; recency is 1.1 for now and 1 after a month."""
    age_days = max(0.0, (now - used_at).total_seconds() / 86_400)
    return similarity * (1 + 0.05 * importance) * (1 + 0.1 * max(0.0, 1 - age_days / 30))


def _assemble(query: ContextQuery, asked: Asked, found: Found, budget: int, settings: Settings) -> Context:
    parameters, zone = asked.parameters, asked.zone
    closing = assemble.plain("question", blocks.QUESTION + query.query)
    opening = assemble.plain("guardrails", blocks.GUARDRAILS)
    if closing.tokens > budget:
        raise InvalidInput(
            f"budget_tokens is {budget}, but the question alone takes {closing.tokens}: raise it or ask shorter",
            field="budget_tokens",
        )
    fixed: list[Block] = [closing]
    degraded = list(asked.degraded)
    if opening.tokens + closing.tokens <= budget:
        fixed.append(opening)
    else:
        degraded.append("guardrails: the budget has no room for them")
    room = budget - sum(block.tokens for block in fixed)
    made: dict[str, Block] = {block.kind: block for block in fixed}
    dropped: list[Dropped] = []

    def place(section: assemble.Section) -> None:
        nonlocal room
        filled = assemble.fill(section, room)
        dropped.extend(filled.dropped)
        if filled.block is not None:
            made[section.kind] = filled.block
            room -= filled.block.tokens

    asked_text = query.query.strip().casefold()
    recent = [m for m in found.recent if m.content.strip() and m.content.strip().casefold() != asked_text]
    place(
        blocks.history(recent, min(parameters.history_tokens, int(budget * parameters.history_share)), zone)
    )
    shown = (
        {int(item.id): "the recent messages" for item in made["history"].items} if "history" in made else {}
    )
    facts = [m for m in found.memories if m.type != "document"][: parameters.memories]
    chunks = [m for m in found.memories if m.type == "document"][: parameters.documents]
    memory_cap = int(budget * parameters.memory_share)
    place(blocks.memories(facts, memory_cap))
    place(blocks.documents(chunks, memory_cap))
    summarized = [(card, score) for card, score in found.sessions if card.summary]
    place(blocks.sessions(summarized, parameters, int(budget * parameters.session_share), zone))
    if found.retrieved is not None:
        others = blocks.related(
            [card for card, _ in summarized[: parameters.sessions]],
            summarized[parameters.sessions :],
            parameters,
            zone,
        )
        reserve = assemble.fill(others, room // 10)
        related_tokens = reserve.block.tokens if reserve.block else 0
        section, left_out = blocks.exchanges(
            found.ranked, found.retrieved.candidates, shown, parameters, zone, asked_text
        )
        dropped.extend(left_out)
        room -= related_tokens
        place(section)
        room += related_tokens
        place(others)
    order = ("guardrails", "documents", "memories", "sessions", "exchanges", "related", "history", "question")
    ordered = [made[kind] for kind in order if kind in made]
    return Context(
        context_id=f"ctx_{secrets.token_hex(8)}",
        text="\n\n".join(block.text for block in ordered),
        messages=_chat_messages(query, ordered, recent),
        blocks=ordered,
        used_tokens=sum(block.tokens for block in ordered),
        budget=budget,
        degraded=degraded,
        explain=_explain(query, asked, found, ordered, dropped) if query.explain else None,
        memories=[
            MemoryPreview(id=m.id, source=m.source, preview=assemble.shortened(m.content, 120), score=m.score)
            for m in facts
        ]
        if query.profile == "ask"
        else None,
        usedHistoryTokens=(made["history"].tokens if "history" in made else 0)
        if query.profile == "ask"
        else None,
    )


def _chat_messages(query: ContextQuery, ordered: list[Block], recent: list[Message]) -> list[ChatMessage]:
    """The blocks for a chat model: what is known as the system's, recent messages as said, then the question."""
    told = "\n\n".join(block.text for block in ordered if block.kind not in {"history", "question"})
    said = {str(message.id): message for message in recent}
    history = [item for block in ordered if block.kind == "history" for item in block.items]
    spoken = []
    for item in history:
        message = said[item.id]
        text = assemble.within_tokens(message.content, estimate(item.text))
        if message.role == "assistant":
            spoken.append(ChatMessage(role="assistant", content=text))
        else:
            spoken.append(ChatMessage(role="user", content=f"{message.speaker}: {text}"))
    system = [ChatMessage(role="system", content=told)] if told else []
    return [*system, *spoken, ChatMessage(role="user", content=query.query)]


def _message_hits(ranked: list[Scored]) -> list[Hit]:
    return [
        Hit(
            kind="message",
            id=str(hit.candidate.id),
            external_id=hit.candidate.external_id,
            session_id=hit.candidate.session or None,
            at=hit.candidate.sent_at,
            speaker=hit.candidate.speaker,
            preview=assemble.shortened(assemble.one_line(hit.candidate.text), 160),
            rank=number,
            score=round(hit.score, 6),
            components={name: round(value, 6) for name, value in hit.parts.items()},
        )
        for number, hit in enumerate(ranked, start=1)
    ]


def _explain(
    query: ContextQuery, asked: Asked, found: Found, ordered: list[Block], dropped: list[Dropped]
) -> Explanation:
    return Explanation(
        profile=query.profile,
        parameters={**asdict(asked.parameters), **asdict(asked.weights)},
        vector_search=found.retrieved.vector_search if found.retrieved else "off",
        rows_compared=found.retrieved.rows_compared if found.retrieved else 0,
        sessions=[
            Hit(
                kind="session",
                id=str(card.id),
                session_id=card.id,
                at=card.started_at,
                preview=assemble.shortened(assemble.one_line(card.summary or "not summarized"), 160),
                rank=number,
                score=round(score, 6),
            )
            for number, (card, score) in enumerate(found.sessions, start=1)
        ],
        messages=_message_hits(found.ranked[:EXPLAINED]),
        memories=[
            Hit(
                kind="memory",
                id=m.id,
                preview=assemble.shortened(m.content, 160),
                rank=n,
                score=round(m.score, 6),
            )
            for n, m in enumerate(found.memories, start=1)
        ],
        dropped=dropped[:EXPLAINED],
        timings_ms={},
        tokens_by_block={block.kind: block.tokens for block in ordered},
    )


def _note(database: Database, tenant_id: str, context: Context, found: Found, seconds: float) -> None:
    """Add the request to the daily counters, and note which memories were shown."""
    shown = {
        item.id for block in context.blocks if block.kind in {"memories", "documents"} for item in block.items
    }
    tokens = {f"tokens_{block.kind}": float(block.tokens) for block in context.blocks}
    with database.tenant(tenant_id) as connection:
        if shown:
            memories.touch(connection, sorted(shown))
        counters.add(
            connection,
            tenant_id,
            {
                "contexts": 1,
                "context_seconds": seconds,
                "contexts_degraded": bool(context.degraded),
                "sessions_retrieved": len(found.sessions),
                **tokens,
            },
        )
