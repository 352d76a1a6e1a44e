"""How fast a context is, and what memory ten thousand messages take, through the shipped path."""

import random
import resource
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from statistics import median, quantiles

from sqlalchemy import text

from ops.eval import shipped
from ops.eval.shipped import Shipped
from schemas.messages import ChatIn, MessageIn
from schemas.settings import Settings

START = datetime(2025, 1, 6, 8, 0, tzinfo=UTC)
PEOPLE = ("Ann", "Bob", "Cy", "Dee", "Eve", "Fay")
# Words by how often they are used, as Zipf's law has it: the n-th is used 1/n times as often as the first.
_SYLLABLES = [a + b for a in "btkmsrldgpf" for b in ("a", "o", "in", "u", "er")]
VOCABULARY = [a + b for a in _SYLLABLES for b in _SYLLABLES]
# Questions hold words that are neither the most frequent ones nor seldom enough to be easy.
ASKED = VOCABULARY[30:1500]


@dataclass(frozen=True, kw_only=True)
class Measured:
    """What a run found. Times in milliseconds, memory in megabytes (10**6 bytes)."""

    messages: int
    chats: int
    embedder: str
    # accepted, placed, summarized and embedded, by one process
    fill_seconds: float
    # of `build_context` with the model warm, embedding the question included
    context_p50_ms: float
    context_p95_ms: float
    # medians by stage
    stages_ms: dict[str, float]
    # tables with their indexes
    database_mb: float
    database_mb_per_10k: float
    # this process before, with its libraries, the model loaded and warm; and what it grew by after that
    process_warm_mb: float
    process_growth_mb: float


def conversation(seed: int, messages: int) -> Iterator[MessageIn]:
    """Talk of a made-up language: sessions of about twenty messages, words as frequent as in real ones."""
    rng = random.Random(seed)  # noqa: S311
    weights = [1 / rank for rank in range(1, len(VOCABULARY) + 1)]
    at = START
    for number in range(messages):
        at += (
            timedelta(hours=rng.uniform(1, 30))
            if rng.random() < 0.05
            else timedelta(seconds=rng.uniform(5, 240))
        )
        words = rng.choices(VOCABULARY, weights, k=min(40, 3 + int(rng.expovariate(0.12))))
        speaker = rng.choice(PEOPLE)
        yield MessageIn(
            external_id=f"b{number}",
            sender_id=f"bench:{speaker}",
            sender_name=speaker,
            content=" ".join(words) + rng.choice((".", "?", "", "!")),
            sent_at=at,
        )


def measure(
    settings: Settings, *, messages: int, chats: int, questions: int, progress: Callable[[str], None]
) -> Measured:
    """Fill a fresh database and ask it. Bounded by its arguments; nothing is kept."""
    with shipped.temporary(settings) as backscroll:
        embedder = backscroll.resources.embedder
        embedder.embed_documents([" ".join(VOCABULARY[:400])] * settings.embedding_batch_size)
        before = _resident_mb()
        started = time.monotonic()
        for chat in range(chats):
            given = list(conversation(chat, messages // chats))
            backscroll.fill(ChatIn(chat_id=f"bench:{chat}", title=f"Bench {chat}"), given, progress)
        fill_seconds = time.monotonic() - started
        backscroll.vacuum()
        progress("asking")
        times, stages = _ask(backscroll, chats, questions)
        size = _database_mb(backscroll)
        return Measured(
            messages=messages,
            chats=chats,
            embedder=embedder.space.name,
            fill_seconds=round(fill_seconds, 1),
            context_p50_ms=round(median(times), 1),
            context_p95_ms=round(quantiles(times, n=20)[18], 1),
            stages_ms={name: round(median(values), 1) for name, values in stages.items()},
            database_mb=round(size, 1),
            database_mb_per_10k=round(size * 10_000 / messages, 1),
            process_warm_mb=round(before, 1),
            process_growth_mb=round(_resident_mb() - before, 1),
        )


def _ask(backscroll: Shipped, chats: int, questions: int) -> tuple[list[float], dict[str, list[float]]]:
    rng = random.Random(1)  # noqa: S311
    times: list[float] = []
    stages: dict[str, list[float]] = {}
    for number in range(questions + 5):
        question = " ".join(rng.sample(ASKED, 5)) + "?"
        chat = f"bench:{rng.randrange(chats)}"
        started = time.monotonic()
        backscroll.ask(chat, question, 2000, explain=False)
        spent_ms = (time.monotonic() - started) * 1000
        # the first ones warm caches and prepare statements
        if number >= 5:
            times.append(spent_ms)
            context = backscroll.ask(chat, question, 2000)
            for stage, spent in (context.explain.timings_ms if context.explain else {}).items():
                stages.setdefault(stage, []).append(spent)
    return times, stages


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
    return asdict(measured)
