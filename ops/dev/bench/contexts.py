"""How fast contexts and searches are, and what memory messages take, through the shipped path."""

import random
import resource
import time
from collections import defaultdict
from dataclasses import asdict, dataclass, field

from rich.table import Table
from sqlalchemy import text

from ops.dev import shipped
from ops.dev.bench.figures import Gate, Say, Spread, gates_table, with_verdicts
from ops.dev.bench.narrowing import NarrowingTimes, narrow
from ops.dev.bench.talk import VOCABULARY, WordMeans, conversation, question_words
from ops.dev.observe import timed
from ops.dev.shipped import Shipped
from pipeline.retrieval.search import search
from schemas.messages import ChatIn
from schemas.search import SearchQuery
from schemas.settings import Settings

# The model would take most of an hour for more.
EMBEDDED_UP_TO = 10_000
# The first questions warm caches and prepare statements.
WARM_UP = 10
# A search over everything takes long enough to be measured from so many messages.
NARROWED_FROM = 100_000


@dataclass(frozen=True, kw_only=True)
class ContextFigures:
    """What a run found. Times in milliseconds, memory in megabytes (10**6 bytes)."""

    messages: int
    chats: int
    embedder: str
    # how the messages' vectors were made
    vectors: str
    # accepted, placed, summarized and embedded, by one process
    fill_seconds: float
    embedded_per_second: float
    # `build_context` with the model warm, embedding the question included
    context: Spread
    # of contexts with their explanation
    stages: dict[str, Spread]
    # the ten best by words and meaning, embedding included
    search: Spread
    # how the words and the vectors of the last question were searched
    keyword_search: str
    vector_search: str
    # with 100,000 messages and more
    narrowed: NarrowingTimes | None
    # tables with their indexes
    database_mb: float
    database_mb_per_10k: float
    # this process with its libraries, the model loaded and warm; and what it grew by after that
    process_warm_mb: float
    process_growth_mb: float

    def gates(self) -> list[Gate]:
        """What is promised of such a run."""
        grown = self.process_growth_mb * 10_000 / max(self.messages, 10_000)
        found = [
            Gate(
                name="context, p95",
                counted="build_context with recent messages, the model warm and the question embedded by it",
                measured=self.context.p95,
                limit=context_limit_ms(self.messages, self.chats),
                unit="ms",
            ),
            Gate(
                name="top-10 search, p95",
                counted="search by words and meaning, embedding included",
                measured=self.search.p95,
                limit=100,
                unit="ms",
            ),
            Gate(
                name="memory for 10,000 messages",
                counted="tables with their indexes, and what this process grew by, for each 10,000 messages",
                measured=round(self.database_mb_per_10k + grown, 1),
                limit=500,
                unit="MB",
            ),
            Gate(
                name="embedding",
                counted="messages of this talk by the model, in batches, without writing them",
                measured=self.embedded_per_second,
                limit=100,
                unit="a second",
                more_is_better=True,
            ),
        ]
        if self.narrowed is not None:
            narrowing = Gate(
                name="narrowing",
                counted="exact comparison with all vectors of the tenant, over choosing 3 sessions by their "
                "vectors and comparing with the messages in them",
                measured=self.narrowed.times_as_fast,
                limit=5,
                unit="times as fast",
                more_is_better=True,
            )
            found.append(narrowing)
        return found


def context_limit_ms(messages: int, chats: int) -> float:
    """The most that 95 of 100 contexts may take: 60 ms where a chat has up to 2,000 messages, else 150 ms."""
    return 60.0 if messages <= 2000 * chats else 150.0


def measure(
    settings: Settings, *, messages: int, chats: int, questions: int, progress: Say
) -> ContextFigures:
    """Fill a fresh database and ask it. Bounded by its arguments; nothing is kept."""
    made_up = messages > EMBEDDED_UP_TO
    with shipped.temporary(settings) as backscroll:
        model = backscroll.resources.embedder
        embedded_per_second = _embedding_rate(backscroll)
        before = _resident_mb()
        started = time.monotonic()
        if made_up:
            progress("the words' vectors")
            backscroll.resources.embedder = WordMeans(model)
        for chat in range(chats):
            given = list(conversation(chat, messages // chats))
            backscroll.fill(ChatIn(chat_id=f"bench:{chat}", title=f"Bench {chat}"), given, progress)
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
        return ContextFigures(
            messages=messages,
            chats=chats,
            embedder=model.space.name,
            vectors="made up: the mean of the model's vectors of the words" if made_up else "by the model",
            fill_seconds=round(fill_seconds, 1),
            embedded_per_second=round(embedded_per_second, 1),
            context=Spread.of(asked.contexts),
            stages={name: Spread.of(values) for name, values in asked.stages.items()},
            search=Spread.of(asked.searches),
            keyword_search=asked.keyword_search,
            vector_search=asked.vector_search,
            narrowed=narrowed,
            database_mb=round(size, 1),
            database_mb_per_10k=round(size * 10_000 / messages, 1),
            process_warm_mb=round(before, 1),
            process_growth_mb=round(_resident_mb() - before, 1),
        )


@dataclass(kw_only=True)
class _QuestionTimes:
    contexts: list[float] = field(default_factory=list)
    searches: list[float] = field(default_factory=list)
    stages: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    keyword_search: str = "off"
    vector_search: str = "off"


def _ask(backscroll: Shipped, chats: int, questions: int) -> _QuestionTimes:
    """Each question is new, as a bot's are: nothing of its answer can be cached."""
    rng = random.Random(1)  # noqa: S311
    times = _QuestionTimes()
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
        times.contexts.append(plain_ms)
        times.searches.append(search_ms)
        times.keyword_search = context.explain.keyword_search
        times.vector_search = context.explain.vector_search
        stages = context.explain.timings_ms
        # other: reading the question, recent messages, connections
        for stage, spent in {**stages, "other": told_ms - sum(stages.values())}.items():
            times.stages[stage].append(spent)
    return times


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


def as_dict(found: ContextFigures) -> dict[str, object]:
    """The figures and gates as one JSON object."""
    return {**asdict(found), "gates": with_verdicts(found.gates())}


def tables(found: ContextFigures) -> list[Table]:
    """The figures, and the limits beside what was measured."""
    embed = found.stages["embed"].p50 if "embed" in found.stages else 0.0
    narrowed = found.narrowed
    rows = {
        "vectors": found.vectors,
        "context, p50 / p95": found.context,
        "  without embedding the question, p50": f"{found.context.p50 - embed:.1f} ms",
        **{f"  {stage}": spent for stage, spent in found.stages.items()},
        "  words, vectors": f"{found.keyword_search}, {found.vector_search}",
        "top-10 search, p50 / p95": found.search,
        "search narrowed to 3 sessions": narrowed and f"{narrowed.narrowed_ms} ms",
        "search over everything, exactly": narrowed and f"{narrowed.global_ms} ms",
        "filled in": f"{found.fill_seconds} s",
        "tables and indexes": f"{found.database_mb} MB ({found.database_mb_per_10k} per 10,000 messages)",
        "this process, model warm": f"{found.process_warm_mb} MB",
        "  grew by": f"{found.process_growth_mb} MB",
    }
    title = f"{found.messages:,} messages in {found.chats} chats, {found.embedder}"
    table = Table(title=title, show_header=False)
    for name, value in rows.items():
        if value is not None:
            table.add_row(name, str(value))
    return [table, gates_table(found.gates())]
