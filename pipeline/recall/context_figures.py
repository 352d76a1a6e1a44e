"""Compute what a served context adds to the daily counters: its time by stage and its contents (pure)."""

import math
from collections.abc import Mapping
from itertools import pairwise

from pipeline.recall.rank.ranked import Ranked
from schemas.context import BlockKind, Context, Source

SOURCES: dict[BlockKind, Source] = {
    "history": "recent",
    "exchanges": "message",
    "rollups": "session",
    "related": "session",
    "memories": "memory",
    "documents": "document",
}
"""The source that a block's tokens count for; the question and the guardrails have none."""
BUCKET_SECONDS = (0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, math.inf)
"""Upper bounds of the latency histogram; each context is counted in one bucket alone."""
IN_BUCKET = "context_seconds_le_"
STAGES = {
    "embed": ("embed", "hyde"),
    "find": ("event", "hyde_search", "narrow", "retrieve"),
    "rank": ("rank", "reranker", "sessions", "rerank"),
    "pack": ("assemble",),
}
"""The stopwatch timings of each stage; the rest of a request's time is the stage `ask`."""


def bucket(bound: float) -> str:
    """Return the counter of contexts that took up to `bound` seconds, and longer than the bound before.

    >>> bucket(0.1), bucket(math.inf)
    ('context_seconds_le_0.1', 'context_seconds_le_inf')
    """
    return f"{IN_BUCKET}{bound:g}"


def retrieved(context: Context, ranked: Ranked) -> dict[str, float]:
    """Return the numbers of sessions, by their messages or summaries, and of memories that a context shows."""
    session_of = {str(hit.candidate.id): hit.candidate.session for hit in ranked.ranked}
    items = [item for block in context.blocks for item in block.items]
    sessions = {int(item.id) for item in items if item.kind == "session"}
    sessions |= {session_of.get(item.id, 0) for item in items if item.kind == "message"}
    memories = sum(item.kind in {"memory", "document"} for item in items)
    return {"sessions_retrieved": len(sessions - {0}), "memories_retrieved": memories}


def figures(context: Context, seconds: float, timings_ms: Mapping[str, float]) -> dict[str, float]:
    """Return the counters of a context that took `seconds`."""
    stages = {
        stage: sum(timings_ms.get(name, 0.0) for name in names) / 1000 for stage, names in STAGES.items()
    }
    stages["ask"] = max(0.0, seconds - sum(stages.values()))
    tokens = {f"tokens_{block.kind}": float(block.tokens) for block in context.blocks}
    shows = any(block.kind in SOURCES and block.tokens for block in context.blocks)
    within = next(high for low, high in pairwise((-1.0, *BUCKET_SECONDS)) if low < seconds <= high)
    return {
        "contexts": 1,
        "contexts_degraded": bool(context.degraded),
        "contexts_empty": not shows,
        f"contexts_{context.evidence or 'unjudged'}": 1,
        "context_seconds": seconds,
        bucket(within): 1,
        **{f"context_{stage}_seconds": spent for stage, spent in stages.items()},
        **tokens,
    }
