"""Find the memories that may be shown to the asker, best first."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import chain
from typing import Any

from sqlalchemy import Connection, Row

from pipeline.people import visibility
from pipeline.ranking.model import OTHER_QUERY_WEIGHT
from pipeline.retrieval.prepare import PreparedQuery
from pipeline.store import memories


@dataclass(frozen=True, kw_only=True)
class RetrievedMemory:
    """A memory that was found, with its final score."""

    id: str
    scope: str
    type: str
    content: str
    source: str
    document_id: str | None
    chunk_index: int | None
    score: float
    # the factors of the score
    components: Mapping[str, float] = field(default_factory=dict)
    # to a query's vector, as in `pipeline.ranking.model.Candidate`; None while it has none
    cosine: float | None = None


def find_memories(connection: Connection, query: PreparedQuery) -> tuple[list[RetrievedMemory], int]:
    """`(memories, hidden)`: unexpired memories for a question, best first, and how many may not be shown here.

    These are memories of the organization, this agent and the asker, and of the chat's latest sessions, or of those of
    one key. `hidden` is counted only for an explanation.
    """
    request, parameters = query.request, query.request.parameters
    wanted = parameters.memories + parameters.documents
    # without memories, do not look up who may see what: it takes a tenth of a context's time
    if not wanted or not memories.any_there(connection):
        return [], 0
    seen = visibility.seen(connection, request.chat.chat_id, request.chat.kind, request.user_id)
    by_query = []
    for number, each in enumerate(query.terms.queries):
        space, vector = each.embedded or (None, None)
        rows = memories.relevant(
            connection,
            scope=request.scope,
            seen=seen,
            agent_id=request.agent_id,
            words=each.lexemes,
            space=space,
            query=vector,
            min_importance=parameters.min_importance,
            limit=4 * wanted,
        )
        by_query.append([(row, OTHER_QUERY_WEIGHT if number else 1.0) for row in rows])
    hidden = 0
    if request.explain:
        hidden = memories.count_hidden(
            connection,
            scope=request.scope,
            seen=seen,
            agent_id=request.agent_id,
            min_importance=parameters.min_importance,
        )
    return _scored(_best_first(by_query), query.parsed.now), hidden


def _best_first(by_query: Sequence[Sequence[tuple[Row[Any], float]]]) -> list[tuple[Row[Any], float]]:
    """Merge what each query found, each with the weight of its query."""
    if len(by_query) == 1:
        return list(by_query[0])
    return sorted(chain.from_iterable(by_query), key=lambda each: -each[0].similarity * each[1])


def _scored(found: Sequence[tuple[Row[Any], float]], now: datetime) -> list[RetrievedMemory]:
    """Score what was found, best first; each similarity counts by the weight beside it."""
    # a person's memory may be stored under two of their ids, and be found by two queries
    unique = {
        (row.scope, row.document_id, bytes(row.content_hash)): (row, weight)
        for row, weight in reversed(found)
    }
    newest_first = sorted(unique.values(), key=lambda each: each[0].id, reverse=True)
    scored = [
        RetrievedMemory(
            id=str(row.id),
            scope=row.scope,
            type=row.type,
            content=row.content,
            source=row.source,
            document_id=row.document_id,
            chunk_index=row.chunk_index,
            score=math.prod(factors.values()),
            components=factors,
            cosine=None if row.cosine is None else weight * row.cosine,
        )
        for row, weight in newest_first
        # a session's memories are its history, similar or not; `memory_block.choose` decides on those of the asker
        # and of an agent's character
        if row.similarity > 0 or row.scope in {"session", "user"} or row.type == "persona"
        for factors in [
            _factors(weight * row.similarity, row.importance, row.last_accessed_at or row.created_at, now)
        ]
    ]
    return sorted(scored, key=lambda memory: -memory.score)


def _factors(similarity: float, importance: float, used_at: datetime, now: datetime) -> dict[str, float]:
    """Return the factors of a memory's score; `recency` is 1.1 for now and 1 after a month."""
    age_days = max(0.0, (now - used_at).total_seconds() / 86_400)
    return {
        "similarity": max(similarity, 0.0),
        "importance": 1 + 0.05 * importance,
        "recency": 1 + 0.1 * max(0.0, 1 - age_days / 30),
    }
