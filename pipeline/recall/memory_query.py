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
from pipeline.recall.relevance import judge
from pipeline.recall.relevance.evidence import By
from pipeline.recall.relevance.judge import LIMIT
from pipeline.store.connections.database import Database
from pipeline.store.memories import memory_search
from pipeline.store.memories.memory_conditions import MemoryConditions
from pipeline.store.people import identities
from pipeline.store.vectors import vectors
from pipeline.text.excerpt import Wanted
from pipeline.text.languages import FALLBACK
from schemas.memory.memories import MemoryHit, MemoryQuery, MemoryResult
from schemas.vectors import EmbeddingSpace


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
    relevance, by = _relevance(query.query, rows, space)
    scored = [
        (row, value * math.prod(factors.values()), {"relevance": value, **factors})
        for row, value in zip(rows, relevance, strict=True)
        if value >= LIMIT or query.fill
        for factors in [worth(row, row.at)]
    ]
    scored.sort(key=lambda entry: (-entry[1], entry[0].id))
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
    best = max(relevance, default=0.0)
    return MemoryResult(hits=hits, evidence=judge.level_of_text(best, by), degraded=by_meaning.degraded)


def _relevance(query: str, rows: Sequence[Row[Any]], space: EmbeddingSpace | None) -> tuple[list[float], By]:
    """Judge each row beside the others, its words as the search read them, and say by what it was judged."""
    by: By = "both" if space is not None and space.questions is not None else "words"
    wanted = Wanted.of(query, FALLBACK)
    texts, cosines = [row.content for row in rows], [row.cosine for row in rows]
    return judge.texts(texts, cosines, wanted, by).tolist(), by


def _arms(rows: Sequence[Row[Any]]) -> dict[str, dict[str, int]]:
    """Return the rank of each row, by id, by its words and by its vector."""
    places: dict[str, dict[str, int]] = {}
    for arm, column in (("keywords", "words"), ("vectors", "cosine")):
        matching = [row for row in rows if row._mapping[column] is not None]
        for number, row in enumerate(sorted(matching, key=lambda row: -row._mapping[column]), start=1):
            places.setdefault(str(row.id), {})[arm] = number
    return places
