"""Search the memories of a tenant, or those that may be shown in a chat, by words and meaning."""

import math
from collections.abc import Sequence
from typing import Any

from sqlalchemy import Row

from pipeline.clients.by_space import Embedding
from pipeline.memories import statements
from pipeline.recall.ask.query_embedder import QueryEmbedder
from pipeline.recall.ask.request import Stopwatch
from pipeline.recall.find.memory_search import worth
from pipeline.recall.pack.hits import rounded
from pipeline.recall.rank.similarity import Scale
from pipeline.store.connections.database import Database
from pipeline.store.memories import memory_search
from pipeline.store.memories.memory_conditions import MemoryConditions
from pipeline.store.people import identities
from pipeline.store.vectors import vectors
from schemas.memory.memories import MemoryHit, MemoryQuery, MemoryResult


def search_memories(
    database: Database, tenant_id: str, query: MemoryQuery, *, embedder: Embedding | None
) -> MemoryResult:
    """Search for at most `query.limit` memories that are believed, best first.

    With `chat_id` only those that may be shown there. `embedder` is the process's own; without it, or when it does not
    answer, only keywords are searched and `degraded` says so. Raises `NotFound` for an unknown chat,
    `DatabaseUnavailable`.
    """
    with database.tenant(tenant_id) as connection:
        statements.seen_in(connection, query.chat_id, query.user_id)
        active = vectors.searched_space(connection)
    by_meaning = QueryEmbedder(active, embedder, Stopwatch())
    space, vector = by_meaning.embedded(query.query) or (None, None)
    with database.tenant(tenant_id) as connection:
        seen, here = statements.seen_in(connection, query.chat_id, query.user_id)
        conditions = MemoryConditions(
            scope=query.scope,
            user_ids=None if query.user_id is None else identities.ids_of(connection, query.user_id),
            agent_id=query.agent_id,
            types=query.types,
            source=query.source,
            min_importance=query.min_importance,
            metadata=query.metadata,
        )
        rows = memory_search.search(
            connection, conditions, seen, content=query.query, space=space, query=vector, as_of=query.as_of
        )
    scored = _scored(rows)
    arms = _arms(rows)
    hits = [
        MemoryHit(
            rank=number,
            score=round(score, 6),
            components=rounded(parts),
            arms=arms.get(str(row.id), {}),
            memory=statements.as_memory(row, seen, here),
        )
        for number, (row, score, parts) in enumerate(scored[: query.limit], start=1)
    ]
    return MemoryResult(hits=hits, degraded=by_meaning.degraded)


def _scored(rows: Sequence[Row[Any]]) -> list[tuple[Row[Any], float, dict[str, float]]]:
    """Return each row relevant to the query, with its score and the score's parts, best first.

    `meaning` is 0.5 for the average memory and 1 for the best, as `pipeline.recall.rank.similarity` calibrates it.
    """
    scale = Scale.of((row.cosine for row in rows), next((row.mean or 0.0 for row in rows), 0.0))
    compared = any(row.cosine is not None for row in rows)
    scored = []
    for row in rows:
        parts = {"words": row.words or 0.0}
        if compared:
            similar = scale.similarity(row.cosine)
            parts["meaning"] = max(0.0, row.cosine or 0.0) if similar is None else similar
        relevance = sum(parts.values()) / len(parts)
        factors = worth(row, row.at)
        if relevance > 0:
            scored.append((row, relevance * math.prod(factors.values()), parts | factors))
    return sorted(scored, key=lambda entry: (-entry[1], entry[0].id))


def _arms(rows: Sequence[Row[Any]]) -> dict[str, dict[str, int]]:
    """Return the rank of each row, by id, by its words and by its vector."""
    places: dict[str, dict[str, int]] = {}
    for arm, column in (("keywords", "words"), ("vectors", "cosine")):
        matching = [row for row in rows if row._mapping[column] is not None]
        for number, row in enumerate(sorted(matching, key=lambda row: -row._mapping[column]), start=1):
            places.setdefault(str(row.id), {})[arm] = number
    return places
