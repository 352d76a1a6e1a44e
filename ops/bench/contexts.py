"""How fast contexts and searches are, and what memory messages take, through the shipped path."""

import random
import resource
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from statistics import median, quantiles

from sqlalchemy import text

from ops.bench.gates import Gate, context_limit_ms
from ops.bench.narrowing import Narrowed, narrow
from ops.bench.talk import ASKED, VOCABULARY, WordMeans, conversation
from ops.eval import shipped
from ops.eval.shipped import Shipped
from pipeline.retrieval.search import search
from schemas.messages import ChatIn
from schemas.search import SearchQuery
from schemas.settings import Settings

# Embedding more than so many by the model would take most of an hour.
EMBEDDED_UP_TO = 10_000
# The first questions warm caches and prepare statements.
WARM_UP = 10
# Narrowing is compared with a search over everything where that takes long enough to measure.
NARROWED_FROM = 100_000


@dataclass(frozen=True, kw_only=True)
class Spread:
    """Milliseconds: half of the cases took no longer than `p50`, 95 of 100 no longer than `p95`."""

    p50: float
    p95: float

    @classmethod
    def of(cls, values: list[float]) -> "Spread":
        """Of at least two values."""
        return cls(p50=round(median(values), 1), p95=round(quantiles(values, n=20)[18], 1))


@dataclass(frozen=True, kw_only=True)
class Measured:
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
    # `search`, the ten best by words and meaning, embedding included
    search: Spread
    # how the words and the vectors of the last question were searched
    keyword_search: str
    vector_search: str
    # with 100,000 messages and more
    narrowed: Narrowed | None
    # tables with their indexes
    database_mb: float
    database_mb_per_10k: float
    # this process before, with its libraries, the model loaded and warm; and what it grew by after that
    process_warm_mb: float
    process_growth_mb: float

    def gates(self) -> list[Gate]:
        """What is promised of such a run."""
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
                measured=round(
                    self.database_mb_per_10k + self.process_growth_mb * 10_000 / max(self.messages, 10_000), 1
                ),
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
            found.append(
                Gate(
                    name="narrowing",
                    counted="exact comparison with all vectors of the tenant, over choosing 3 sessions by their "
                    "vectors and comparing with the messages in them",
                    measured=self.narrowed.times_as_fast,
                    limit=5,
                    unit="times as fast",
                    more_is_better=True,
                )
            )
        return found


def measure(
    settings: Settings, *, messages: int, chats: int, questions: int, progress: Callable[[str], None]
) -> Measured:
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
        # statistics first: by them a chat is large
        backscroll.vacuum()
        progress("building the index of vectors, if a chat is large")
        backscroll.index()
        progress("asking")
        asked = _ask(backscroll, chats, questions)
        progress("narrowing")
        narrowed = narrow(backscroll, chats, min(questions, 30)) if messages >= NARROWED_FROM else None
        size = _database_mb(backscroll)
        return Measured(
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
class _Asked:
    contexts: list[float]
    searches: list[float]
    stages: dict[str, list[float]]
    keyword_search: str = "off"
    vector_search: str = "off"


def _ask(backscroll: Shipped, chats: int, questions: int) -> _Asked:
    """Each question is new, as a bot's are: nothing of its answer can be cached."""
    rng = random.Random(1)  # noqa: S311
    asked = _Asked(contexts=[], searches=[], stages={})
    for number in range(questions + WARM_UP):
        chat = f"bench:{rng.randrange(chats)}"
        question = " ".join(rng.sample(ASKED, 5)) + "?"
        started = time.monotonic()
        backscroll.ask(chat, question, 2000, explain=False, include_history=True)
        plain_ms = (time.monotonic() - started) * 1000
        # another question for the stages, as telling of them takes time too
        question = " ".join(rng.sample(ASKED, 5)) + "?"
        started = time.monotonic()
        context = backscroll.ask(chat, question, 2000, include_history=True)
        spent_ms = (time.monotonic() - started) * 1000
        query = SearchQuery(chat_id=chat, query=" ".join(rng.sample(ASKED, 5)))
        resources = backscroll.resources
        started = time.monotonic()
        search(
            resources.database,
            backscroll.settings.tenant,
            query,
            embedder=resources.embedder,
            settings=backscroll.settings,
        )
        if number >= WARM_UP and context.explain is not None:
            asked.searches.append((time.monotonic() - started) * 1000)
            asked.contexts.append(plain_ms)
            asked.keyword_search = context.explain.keyword_search
            asked.vector_search = context.explain.vector_search
            stages = context.explain.timings_ms
            # reading the question, recent messages, connections
            for stage, spent in {**stages, "other": spent_ms - sum(stages.values())}.items():
                asked.stages.setdefault(stage, []).append(spent)
    return asked


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
    with backscroll.resources.database.tenant(backscroll.settings.tenant) as connection:
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


def as_dict(measured: Measured) -> dict[str, object]:
    """For `--json`."""
    return {
        **asdict(measured),
        "gates": [{**asdict(gate), "kept": gate.kept} for gate in measured.gates()],
    }
