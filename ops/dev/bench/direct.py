"""Embedding, contexts and searches without HTTP, through the shipped path: how fast, and in how much memory.

Embedding is measured in turn with the same texts and model: the shipped handler claims, loads, embeds, saves and
finishes on a durable Postgres, the bare model is given all of them at once. The ratio is judged, as the rates are one
machine's at one hour.
"""

import random
import resource
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from functools import partial
from statistics import median
from typing import Any

from ops.dev import shipped
from ops.dev.bench.talk import START, VOCABULARY, conversation, question_words
from ops.dev.eval.samples import samples
from ops.dev.figures import Figure, Say, count_rows, spread, timed
from ops.dev.shipped import Shipped, WrappedEmbedder
from pipeline.clients.protocols import Embedder
from pipeline.recall.search_modes import search
from schemas.messages import ChatIn, MessageIn
from schemas.search import SearchQuery
from schemas.settings import Settings
from schemas.vectors import Vector
from workers import queues

# The first questions warm caches and prepare statements.
WARM_UP = 10
QUESTIONS, QUESTIONS_NARROWED = 100, 30
# From this number of messages a search of all takes long enough to be compared with one that narrows first.
NARROWED_FROM = 10_000
NARROWED: Mapping[str, Mapping[str, Any]] = {
    "narrowed": {"profile": "contextual", "parameters": {"min_session_fit": 1e-9}},
    "of all": {"profile": "balanced", "include_history": False},
}
"""The options of both searches. The best session counts as fitting, however little it does."""
_DATABASE_BYTES = """
    SELECT sum(pg_total_relation_size(oid)) FROM pg_class
    WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace
"""


def measure_messages(settings: Settings, messages: int, chats: int, say: Say) -> Iterator[Figure]:
    """Fill a fresh database and ask it. Memory in megabytes (10**6 bytes)."""
    with shipped.temporary(settings) as backscroll:
        yield Figure("embedding", _embedding_rate(backscroll), "messages/s", least=100)
        # with its libraries, the model loaded and warm
        before = _resident_mb()
        backscroll.fill_chats(conversation, messages, chats, say)
        say("asking")
        yield from _ask(backscroll, messages, chats)
        if messages >= NARROWED_FROM:
            yield from _narrow(backscroll, chats)
        with backscroll.superuser() as connection:
            tables = count_rows(connection, _DATABASE_BYTES) / 1e6 * 10_000 / messages
        grown = (_resident_mb() - before) * 10_000 / max(messages, 10_000)
    yield Figure("tables and indexes of 10,000 messages", tables, "MB")
    yield Figure("growth of the process for 10,000 messages", grown, "MB")
    yield Figure("memory for 10,000 messages", tables + grown, "MB", most=500)


def _ask(backscroll: Shipped, messages: int, chats: int) -> list[Figure]:
    """Ask for contexts and searches, each with a new question, so that nothing of its answer can be cached."""
    rng = random.Random(1)  # noqa: S311
    contexts, searches = [], []
    embedder, settings = backscroll.resources.embedder, backscroll.settings
    find = partial(search, backscroll.database, backscroll.tenant, embedder=embedder, settings=settings)
    for _ in range(WARM_UP + QUESTIONS):
        chat, question = f"bench:{rng.randrange(chats)}", f"{question_words(rng)}?"
        contexts.append(timed(backscroll.ask, chat, question, 2000, explain=False, include_history=True)[0])
        searches.append(timed(find, SearchQuery(chat_id=chat, query=question_words(rng)))[0])
    return [
        *spread("context", contexts[WARM_UP:], most=60 if messages <= 2000 * chats else 150),
        *spread("top-10 search", searches[WARM_UP:], most=100),
    ]


def _embedding_rate(backscroll: Shipped) -> float:
    """Return the messages embedded a second by a warm model."""
    embedder, batch = backscroll.resources.embedder, backscroll.settings.embedding_batch_size
    embedder.embed_documents([" ".join(VOCABULARY[:400])] * batch)
    texts = [message.content for message in conversation(-1, 10 * batch)]
    started = time.monotonic()
    for start in range(0, len(texts), batch):
        embedder.embed_documents(texts[start : start + batch])
    return len(texts) / (time.monotonic() - started)


def _narrow(backscroll: Shipped, chats: int) -> list[Figure]:
    """Ask in the profiles `contextual` and `balanced` in turn: medians of the search's time and of the rows compared.

    The search is all between the embedded question and the ranked messages.
    """
    rng = random.Random(2)  # noqa: S311
    times: dict[str, list[float]] = defaultdict(list)
    rows: dict[str, list[float]] = defaultdict(list)
    for _ in range(WARM_UP + QUESTIONS_NARROWED):
        chat, question = f"bench:{rng.randrange(chats)}", f"{question_words(rng)}?"
        for how, options in NARROWED.items():
            context = backscroll.ask(chat, question, 2000, **options)
            if context.explain is None:
                raise RuntimeError("a context without its explanation")
            spent = context.explain.timings_ms
            times[how].append(sum(spent.get(stage, 0.0) for stage in ("narrow", "retrieve", "rank")))
            rows[how].append(context.explain.rows_compared)
    narrowed, of_all = ((median(times[how][WARM_UP:]), median(rows[how][WARM_UP:])) for how in NARROWED)
    return [
        Figure("search of all", of_all[0], "ms"),
        Figure("narrowed search", narrowed[0], "ms", ratio=of_all[0] / max(narrowed[0], 0.001), least=3),
        Figure("rows compared by a search of all", of_all[1]),
        Figure("by a narrowed search", narrowed[1], ratio=of_all[1] / max(narrowed[1], 1), least=5),
    ]


def _resident_mb() -> float:
    """Return the most memory that this process has held so far, in units of 10**6 bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6


CHATS, MESSAGES_PER_CHAT = 20, 600
# Rounds and their rows, in turn with the bare model.
ROUNDS, ROWS = 4, 1024
SECONDS = 40.0
"""After which no round begins: a slow machine counts fewer."""
LEAST = 0.85


class NotingEmbedder(WrappedEmbedder):
    """The model, with the texts that it was asked to embed."""

    def __init__(self, inner: Embedder) -> None:
        super().__init__(inner)
        self.texts: list[str] = []

    def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        self.texts.extend(texts)
        return self.inner.embed_documents(texts)


def measure_embedding(settings: Settings, say: Say) -> Iterator[Figure]:
    """Embed some 10,000 chat messages, 69 characters in the mean."""
    with shipped.temporary(settings, durable=True) as backscroll:
        say("accepting and placing")
        made = list(drawn_messages(CHATS * MESSAGES_PER_CHAT))
        for number in range(CHATS):
            part = made[number * MESSAGES_PER_CHAT : (number + 1) * MESSAGES_PER_CHAT]
            backscroll.accept(ChatIn(chat_id=f"bench:{number}"), part)
        backscroll.run_all("ingest")
        backscroll.resources.embedder = model = NotingEmbedder(backscroll.resources.embedder)
        _embed_rows(backscroll, 256)
        say("embedding")
        deadline = time.monotonic() + SECONDS
        count, rows_ms, bare_ms = 0, 0.0, 0.0
        while not count or (count < ROUNDS * ROWS and time.monotonic() < deadline):
            model.texts.clear()
            ms, done = timed(_embed_rows, backscroll, ROWS)
            count += done
            rows_ms += ms
            # not in the order in which the handler has sorted them
            texts = random.Random(count).sample(model.texts, len(model.texts))  # noqa: S311
            bare_ms += timed(model.inner.embed_documents, texts)[0]
    yield Figure(f"the bare model, {ROWS:,} at once", 1000 * count / bare_ms, "/s")
    case = f"{count:,} texts, rows to rows, claims of {queues.EMBED.batch}"
    yield Figure(case, 1000 * count / rows_ms, "/s", ratio=bare_ms / rows_ms, least=LEAST)


def _embed_rows(backscroll: Shipped, wanted: int) -> int:
    """Let the shipped handler embed `wanted` rows or some more; return their number."""
    done = 0
    while done < wanted:
        outcome = backscroll.run("embed")
        if not outcome.finished:
            raise RuntimeError("nothing was embedded")
        done += outcome.finished
    return done


def drawn_messages(count: int) -> Iterator[MessageIn]:
    """Make messages of what is said in the sample chats, now and then of two such texts; no two alike."""
    texts = [message.content for sample in samples() for message in sample.messages if message.content]
    rng = random.Random(1)  # noqa: S311
    for number in range(count):
        parts = rng.sample(texts, 2 if rng.random() < 0.25 else 1)
        yield MessageIn(
            external_id=f"e{number}",
            sender_id=f"bench:{number % 5}",
            sender_name="Ann",
            content=f"{' '.join(parts)} {number}",
            # in sessions of twenty
            sent_at=START + timedelta(minutes=number + 60 * (number // 20)),
        )
