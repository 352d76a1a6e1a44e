"""How fast contexts and searches are, and what memory messages take, through the shipped path."""

import random
import resource
import time
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from rich.table import Table
from sqlalchemy import text

from ops.dev import shipped
from ops.dev.bench.figures import Figure, as_table, spread
from ops.dev.bench.narrowing import narrow
from ops.dev.bench.talk import VOCABULARY, WordMeans, conversation, question_words
from ops.dev.observe import Say, timed
from ops.dev.shipped import Shipped
from pipeline.retrieval.search import search
from schemas.messages import ChatIn
from schemas.search import SearchQuery
from schemas.settings import Settings

# The model would take most of an hour for more.
EMBEDDED_UP_TO = 10_000
# The first questions warm caches and prepare statements.
WARM_UP = 10
# From this number of messages a search over everything takes long enough to be measured.
NARROWED_FROM = 100_000


def gates(found: Mapping[str, Any]) -> list[Figure]:
    """What is promised of a run, beside what it found."""
    grown = found["process_growth_mb"] * 10_000 / max(found["messages"], 10_000)
    promised = [
        Figure(
            "context, p95",
            found["context"]["p95"],
            "ms",
            limit=context_limit_ms(found["messages"], found["chats"]),
            counted="build_context with recent messages, the model warm and the question embedded by it",
        ),
        Figure(
            "top-10 search, p95",
            found["search"]["p95"],
            "ms",
            limit=100,
            counted="search by words and meaning, embedding included",
        ),
        Figure(
            "memory for 10,000 messages",
            round(found["database_mb_per_10k"] + grown, 1),
            "MB",
            limit=500,
            counted="tables with their indexes, and what this process grew by, for each 10,000 messages",
        ),
        Figure(
            "embedding",
            found["embedded_per_second"],
            "a second",
            limit=100,
            more_is_better=True,
            counted="messages of this talk by the model, in batches, without writing them",
        ),
    ]
    if narrowed := found["narrowed"]:
        narrowing = Figure(
            "narrowing",
            round(narrowed["global_ms"] / max(narrowed["narrowed_ms"], 0.001), 1),
            "times as fast",
            limit=5,
            more_is_better=True,
            counted="exact comparison with all vectors of the tenant, over choosing 3 sessions by their "
            "vectors and comparing with the messages in them",
        )
        promised.append(narrowing)
    return promised


def as_dict(found: Mapping[str, Any]) -> dict[str, Any]:
    """What was found with its gates, as one JSON object."""
    names = {"name": "case", "measured": "value"}
    keys = ("name", "counted", "measured", "limit", "unit", "more_is_better", "kept")
    return {
        **found,
        "gates": [{key: getattr(gate, names.get(key, key)) for key in keys} for gate in gates(found)],
    }


def context_limit_ms(messages: int, chats: int) -> float:
    """The most that 95 of 100 contexts may take: 60 ms where a chat has up to 2,000 messages, else 150 ms."""
    return 60.0 if messages <= 2000 * chats else 150.0


def measure(
    settings: Settings, *, messages: int, chats: int, questions: int, progress: Say
) -> dict[str, Any]:
    """Fill a fresh database and ask it; what `--json` prints, but for the gates.

    Bounded by its arguments; nothing is kept. Times in milliseconds, memory in megabytes (10**6 bytes).
    """
    made_up = messages > EMBEDDED_UP_TO
    with shipped.temporary(settings) as backscroll:
        model = backscroll.resources.embedder
        embedded_per_second = _embedding_rate(backscroll)
        # with its libraries, the model loaded and warm
        before = _resident_mb()
        started = time.monotonic()
        if made_up:
            progress("the words' vectors")
            backscroll.resources.embedder = WordMeans(model)
        for chat in range(chats):
            given = list(conversation(chat, messages // chats))
            backscroll.fill(ChatIn(chat_id=f"bench:{chat}", title=f"Bench {chat}"), given, progress)
        # accepted, placed, summarized and embedded, by one process
        fill_seconds = time.monotonic() - started
        backscroll.resources.embedder = model
        # statistics first: they say which chat is large
        backscroll.vacuum()
        progress("building the index of vectors, if a chat is large")
        backscroll.index()
        progress("asking")
        asked = _ask(backscroll, chats, questions)
        progress("narrowing")
        narrowed = narrow(backscroll, chats, min(questions, 30)) if messages >= NARROWED_FROM else None
        size = _database_mb(backscroll)
        return {
            "messages": messages,
            "chats": chats,
            "embedder": model.space.name,
            "vectors": "made up: the mean of the model's vectors of the words" if made_up else "by the model",
            "fill_seconds": round(fill_seconds, 1),
            "embedded_per_second": round(embedded_per_second, 1),
            **asked,
            "narrowed": narrowed,
            # tables with their indexes
            "database_mb": round(size, 1),
            "database_mb_per_10k": round(size * 10_000 / messages, 1),
            "process_warm_mb": round(before, 1),
            "process_growth_mb": round(_resident_mb() - before, 1),
        }


def _ask(backscroll: Shipped, chats: int, questions: int) -> dict[str, Any]:
    """Ask for contexts and searches, each with a new question, so that nothing of its answer can be cached."""
    rng = random.Random(1)  # noqa: S311
    contexts, searches = [], []
    stages: dict[str, list[float]] = defaultdict(list)
    how: dict[str, str] = {}
    for number in range(questions + WARM_UP):
        chat = f"bench:{rng.randrange(chats)}"
        asked = f"{question_words(rng)}?"
        plain_ms, _ = timed(backscroll.ask, chat, asked, 2000, explain=False, include_history=True)
        # another question for the stages, as explaining them takes time too
        asked = f"{question_words(rng)}?"
        told_ms, context = timed(backscroll.ask, chat, asked, 2000, include_history=True)
        search_ms, _ = timed(
            search,
            backscroll.database,
            backscroll.tenant,
            SearchQuery(chat_id=chat, query=question_words(rng)),
            embedder=backscroll.resources.embedder,
            settings=backscroll.settings,
        )
        if number < WARM_UP or context.explain is None:
            continue
        contexts.append(plain_ms)
        searches.append(search_ms)
        # of the last question
        how = {name: getattr(context.explain, name) for name in ("keyword_search", "vector_search")}
        spent = context.explain.timings_ms
        # other: reading the question, recent messages, connections
        for stage, ms in {**spent, "other": told_ms - sum(spent.values())}.items():
            stages[stage].append(ms)
    return {
        # with the model warm, embedding the question included
        "context": spread(contexts),
        # of contexts with their explanation
        "stages": {stage: spread(values) for stage, values in stages.items()},
        # the ten best by words and meaning, embedding included
        "search": spread(searches),
        **how,
    }


def _embedding_rate(backscroll: Shipped) -> float:
    """Messages a second, the model warm."""
    embedder, batch = backscroll.resources.embedder, backscroll.settings.embedding_batch_size
    embedder.embed_documents([" ".join(VOCABULARY[:400])] * batch)
    texts = [message.content for message in conversation(-1, 10 * batch)]
    started = time.monotonic()
    for start in range(0, len(texts), batch):
        embedder.embed_documents(texts[start : start + batch])
    return len(texts) / (time.monotonic() - started)


def _database_mb(backscroll: Shipped) -> float:
    with backscroll.database.tenant(backscroll.tenant) as connection:
        size = connection.execute(
            text("""
                SELECT sum(pg_total_relation_size(oid)) FROM pg_class
                WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace
            """)
        ).scalar_one()
    return float(size) / 1e6


def _resident_mb() -> float:
    """The most memory this process has held so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6


def tables(found: Mapping[str, Any]) -> list[Table]:
    """The figures, and the limits beside what was measured."""
    stages, narrowed = found["stages"], found["narrowed"] or {}
    embed = stages["embed"]["p50"] if "embed" in stages else 0.0
    rows = {
        "vectors": found["vectors"],
        "context, p50 / p95": _both(found["context"]),
        "  without embedding the question, p50": f"{found['context']['p50'] - embed:.1f} ms",
        **{f"  {stage}": _both(spent) for stage, spent in stages.items()},
        "  words, vectors": f"{found['keyword_search']}, {found['vector_search']}",
        "top-10 search, p50 / p95": _both(found["search"]),
        **{_NARROWED[name]: f"{ms} ms" for name, ms in narrowed.items()},
        "filled in": f"{found['fill_seconds']} s",
        "tables and indexes": f"{found['database_mb']} MB "
        f"({found['database_mb_per_10k']} per 10,000 messages)",
        "this process, model warm": f"{found['process_warm_mb']} MB",
        "  grew by": f"{found['process_growth_mb']} MB",
    }
    title = f"{found['messages']:,} messages in {found['chats']} chats, {found['embedder']}"
    table = Table(title=title, show_header=False)
    for name, value in rows.items():
        table.add_row(name, value)
    return [table, as_table("limits", gates(found))]


_NARROWED = {
    "narrowed_ms": "search narrowed to 3 sessions",
    "global_ms": "search over everything, exactly",
}


def _both(spent: Mapping[str, float]) -> str:
    return f"{spent['p50']} / {spent['p95']} ms"
