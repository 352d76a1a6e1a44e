"""How fast contexts and searches are, and what memory messages take, through the shipped path."""

import random
import time
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import asdict
from statistics import median
from typing import Any

from rich.table import Table

from ops.dev import shipped
from ops.dev.bench.figures import Figure, as_table, resident_mb, spread
from ops.dev.bench.talk import VOCABULARY, WordMeans, conversation, question_words
from ops.dev.observe import Say, count, timed
from ops.dev.shipped import Shipped
from pipeline.recall.search_modes import search
from schemas.messages import ChatIn
from schemas.search import SearchQuery
from schemas.settings import Settings

# The model would take most of an hour for more.
EMBEDDED_UP_TO = 10_000
# The first questions warm caches and prepare statements.
WARM_UP = 10
# From this number of messages a search of all takes long enough to be compared with one that narrows first.
NARROWED_FROM = 10_000
_DATABASE_BYTES = """
    SELECT sum(pg_total_relation_size(oid)) FROM pg_class
    WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace
"""
_PLAIN = ("fill_seconds", "database_mb", "database_mb_per_10k", "process_warm_mb", "process_growth_mb")


def gates(found: Mapping[str, Any]) -> list[Figure]:
    """Compare a run with what is promised of it."""
    grown = found["process_growth_mb"] * 10_000 / max(found["messages"], 10_000)
    memory = round(found["database_mb_per_10k"] + grown, 1)
    context_ms = context_limit_ms(found["messages"], found["chats"])
    embedded, least = found["embedded_per_second"], {"more_is_better": True}
    promised = [
        Figure("context, p95", found["context"]["p95"], "ms", limit=context_ms),
        Figure("top-10 search, p95", found["search"]["p95"], "ms", limit=100),
        Figure("memory for 10,000 messages", memory, "MB", limit=500),
        Figure("embedding", embedded, "a second", limit=100, **least),
    ]
    if narrowed := found["narrowed"]:
        times = round(narrowed["all_ms"] / max(narrowed["narrowed_ms"], 0.001), 1)
        rows = round(narrowed["all_rows"] / max(narrowed["narrowed_rows"], 1), 1)
        promised.append(Figure("narrowing", times, "times as fast", limit=3, **least))
        promised.append(Figure("narrowing, rows compared", rows, "times fewer", limit=5, **least))
    return promised


def as_dict(found: Mapping[str, Any]) -> dict[str, Any]:
    """Return what was found with its gates, as one JSON object."""
    judged = [asdict(gate) | {"kept": gate.kept} for gate in gates(found)]
    return {
        **found,
        "gates": [{"name": one.pop("case"), "measured": one.pop("value"), **one} for one in judged],
    }


def context_limit_ms(messages: int, chats: int) -> float:
    """Return the most that 95 of 100 contexts may take: 60 ms where a chat has up to 2,000 messages, else 150 ms."""
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
        before = resident_mb()
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
        narrowed = _narrow(backscroll, chats, min(questions, 30)) if messages >= NARROWED_FROM else None
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
            "process_growth_mb": round(resident_mb() - before, 1),
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
    with backscroll.superuser() as connection:
        return count(connection, _DATABASE_BYTES) / 1e6


def _narrow(backscroll: Shipped, chats: int, questions: int) -> dict[str, float]:
    """Ask in the profiles `contextual` and `balanced` in turn: medians of the search's time and of the rows compared.

    The search is all between the embedded question and the ranked messages. The best session counts as fitting, however
    little it does: what a search costs that falls back is the sum of both.
    """
    rng = random.Random(2)  # noqa: S311
    spent: dict[str, list[float]] = defaultdict(list)
    for _ in range(questions + WARM_UP):
        chat, asked = f"bench:{rng.randrange(chats)}", f"{question_words(rng)}?"
        for which, options in (
            ("narrowed", {"profile": "contextual", "parameters": {"min_session_fit": 1e-9}}),
            ("all", {"profile": "balanced", "include_history": False}),
        ):
            context = backscroll.ask(chat, asked, 2000, **options)
            if context.explain is None:
                raise RuntimeError("a context without its explanation")
            stages = ("narrow", "retrieve", "rank")
            spent[f"{which}_ms"].append(sum(context.explain.timings_ms.get(each, 0.0) for each in stages))
            spent[f"{which}_rows"].append(context.explain.rows_compared)
    return {name: round(median(values[WARM_UP:]), 1) for name, values in spent.items()}


def tables(found: Mapping[str, Any]) -> list[Table]:
    """Show the figures, and the limits beside what was measured."""
    spent = {"context": found["context"], **found["stages"], "top-10 search": found["search"]}
    rows = {
        "vectors": found["vectors"],
        **{f"{name}, p50 / p95": f"{ms['p50']} / {ms['p95']} ms" for name, ms in spent.items()},
        "words, vectors": f"{found['keyword_search']}, {found['vector_search']}",
        **{name.replace("_", " "): str(ms) for name, ms in (found["narrowed"] or {}).items()},
        **{name.replace("_", " "): str(found[name]) for name in _PLAIN},
    }
    title = f"{found['messages']:,} messages in {found['chats']} chats, {found['embedder']}"
    table = Table(title=title, show_header=False)
    for name, value in rows.items():
        table.add_row(name, value)
    return [table, as_table("limits", gates(found))]
