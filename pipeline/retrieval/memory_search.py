"""Find the memories that may be shown to whoever asks, best first."""

import math
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row

from pipeline.people import visibility
from pipeline.retrieval.found import Remembered
from pipeline.retrieval.prepare import Asked
from pipeline.store import memories
from pipeline.store.filters import Scope
from schemas.payloads import ContextQuery


def memories_for(
    connection: Connection, query: ContextQuery, asked: Asked, words: Sequence[str]
) -> tuple[list[Remembered], int]:
    """`(memories, hidden)`: what is known for a question, best first, and how much may not be shown here.

    That is what the organization, this agent and whoever asks are known for, and the memories of the chat's latest
    sessions, or of those of one key. What has expired by now is none of it. `words` are the question's lexemes;
    `hidden` is counted for an explanation alone.
    """
    parameters = asked.parameters
    wanted = parameters.memories + parameters.documents
    # without this, who may see what is looked up for nothing: that takes a tenth of a context's time
    if not wanted or not memories.any_there(connection):
        return [], 0
    seen = visibility.seen(connection, asked.chat.chat_id, asked.chat.kind, query.user_id)
    scope = Scope(chat_id=asked.chat.chat_id, language=asked.chat.language, session_key=query.session_key)
    rows = memories.relevant(
        connection,
        scope=scope,
        seen=seen,
        agent_id=query.agent_id or None,
        words=words,
        space=asked.space,
        query=asked.vector,
        min_importance=parameters.min_importance,
        limit=4 * wanted,
    )
    hidden = 0
    if query.explain:
        hidden = memories.count_hidden(
            connection,
            scope=scope,
            seen=seen,
            agent_id=query.agent_id or None,
            min_importance=parameters.min_importance,
        )
    return _ranked(rows, asked.now), hidden


def _ranked(rows: Sequence[Row[Any]], now: datetime) -> list[Remembered]:
    # the same may have been learned of a person under two of their ids
    unique = {(row.scope, row.document_id, bytes(row.content_hash)): row for row in reversed(rows)}
    newest_first = sorted(unique.values(), key=lambda row: row.id, reverse=True)
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
            cosine=row.cosine,
        )
        for row in newest_first
        # a session's own are its history, alike or not; of whoever asks, and of an agent's character, `chosen` decides
        if row.similarity > 0 or row.scope in {"session", "user"} or row.type == "persona"
        for factors in [_factors(row.similarity, row.importance, row.last_accessed_at or row.created_at, now)]
    ]
    return sorted(remembered, key=lambda memory: -memory.score)


def _factors(similarity: float, importance: float, used_at: datetime, now: datetime) -> dict[str, float]:
    """The factors of a memory's score; `recency` is 1.1 for now and 1 after a month."""
    age_days = max(0.0, (now - used_at).total_seconds() / 86_400)
    return {
        "similarity": max(similarity, 0.0),
        "importance": 1 + 0.05 * importance,
        "recency": 1 + 0.1 * max(0.0, 1 - age_days / 30),
    }
