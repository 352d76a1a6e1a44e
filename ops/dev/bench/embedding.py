"""How fast texts become vectors, from rows to rows, beside the bare model; alone, and beside a process that is busy.

Both embed the same texts in turn with the same model: the shipped handler claims, loads, embeds, saves and finishes on
a durable Postgres, the bare model is given all of them at once. The ratio of both is judged, as the rates are one
machine's at one hour.
"""

import random
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from datetime import timedelta
from pathlib import Path

from ops import connection
from ops.dev import shipped
from ops.dev.bench.figures import Figure
from ops.dev.bench.talk import START
from ops.dev.embedders import WrappedEmbedder
from ops.dev.eval.samples import samples
from ops.dev.observe import Say
from ops.dev.shipped import Shipped
from pipeline.clients.protocols import Embedder
from schemas.messages import ChatIn, MessageIn
from schemas.vectors import Vector
from workers import queues

CHATS, MESSAGES_PER_CHAT = 20, 600
# Rounds and their rows, in turn with the bare model; as many without and with a busy process beside them.
ROUNDS, ROWS = 4, 1024
CLAIMS = (32, 128, 256)
"""Sizes of claims that are tried beside the shipped one, half a round's rows each."""
SECONDS = 40.0
"""After which no round begins, alone or beside the busy process: a slow machine counts fewer."""
ALONE, BUSY = 0.80, 0.70


def measure(say: Say) -> list[Figure]:
    """Embed some 10,000 chat messages, 69 characters in the mean."""
    with shipped.temporary(connection.configured(), durable=True) as backscroll:
        say("accepting and placing")
        said = list(_messages(CHATS * MESSAGES_PER_CHAT))
        for number in range(CHATS):
            part = said[number * MESSAGES_PER_CHAT : (number + 1) * MESSAGES_PER_CHAT]
            backscroll.accept(ChatIn(chat_id=f"bench:{number}"), part)
        backscroll.run_all("ingest")
        backscroll.resources.embedder = model = NotingEmbedder(backscroll.resources.embedder)
        _embed_rows(backscroll, 256, queues.EMBED.batch)
        found = []
        for name, limit, beside in (("alone", ALONE, nullcontext), ("beside a busy process", BUSY, _busy)):
            say(name)
            with beside():
                found += _compare(backscroll, model, name, limit)
        for size in CLAIMS:
            say(f"claims of {size}")
            done, seconds = _embed_rows(backscroll, ROWS // 2, size)
            found.append(Figure(f"alone: rows to rows, claims of {size}", done / seconds, "/s"))
        found.append(Figure("resident memory at the end", _resident_mb(), "MB"))
        return found


class NotingEmbedder(WrappedEmbedder):
    """The model, with the texts that it was asked to embed."""

    def __init__(self, inner: Embedder) -> None:
        super().__init__(inner)
        self.texts: list[str] = []

    def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        self.texts.extend(texts)
        return self.inner.embed_documents(texts)


def _compare(backscroll: Shipped, model: NotingEmbedder, name: str, limit: float) -> list[Figure]:
    """Rows to rows and the bare model in turn."""
    deadline = time.monotonic() + SECONDS
    count, rows_seconds, bare_seconds = 0, 0.0, 0.0
    while not count or (count < ROUNDS * ROWS and time.monotonic() < deadline):
        model.texts.clear()
        done, seconds = _embed_rows(backscroll, ROWS, queues.EMBED.batch)
        count += done
        rows_seconds += seconds
        # not in the order in which the handler has sorted them
        texts = random.Random(count).sample(model.texts, len(model.texts))  # noqa: S311
        started = time.monotonic()
        model.inner.embed_documents(texts)
        bare_seconds += time.monotonic() - started
    of_all = f"{name}: {count:,} texts"
    return [
        Figure(f"{of_all}, the bare model, {ROWS:,} at once", count / bare_seconds, "/s"),
        Figure(
            f"{of_all}, rows to rows, claims of {queues.EMBED.batch}",
            count / rows_seconds,
            "/s",
            ratio=bare_seconds / rows_seconds,
            limit=limit,
            more_is_better=True,
        ),
    ]


def _embed_rows(backscroll: Shipped, wanted: int, claimed: int) -> tuple[int, float]:
    """Let the shipped handler do `wanted` rows, `claimed` at a time: `(rows, seconds)`."""
    done, started = 0, time.monotonic()
    while done < wanted:
        outcome = backscroll.run("embed", claimed)
        if not outcome.finished:
            raise RuntimeError("nothing was embedded")
        done += outcome.finished
    return done, time.monotonic() - started


def _messages(count: int) -> Iterator[MessageIn]:
    """What is said in the sample chats, now and then two such messages in one; no two alike."""
    said = [message.content for sample in samples() for message in sample.messages if message.content]
    rng = random.Random(1)  # noqa: S311
    for number in range(count):
        parts = rng.sample(said, 2 if rng.random() < 0.25 else 1)
        yield MessageIn(
            external_id=f"e{number}",
            sender_id=f"bench:{number % 5}",
            sender_name="Ann",
            content=f"{' '.join(parts)} {number}",
            sent_at=START + timedelta(minutes=number),
        )


@contextmanager
def _busy() -> Iterator[None]:
    """A process that keeps a core full."""
    loop = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        yield
    finally:
        loop.kill()
        loop.wait()


def _resident_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * 4096 / 10**6
