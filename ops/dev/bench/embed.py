"""How fast texts become vectors, from rows to rows, beside the bare model; alone, and beside a process that is busy.

Both embed the same texts in turn with the same model: the shipped handler claims, loads, embeds, saves and finishes on
a durable Postgres, the bare model is given all of them at once, and so is, where it is installed, the same model in
float32 by sentence-transformers. The ratios are judged, as the rates are one machine's at one hour. Then the shipped
commands of the worker and of the HTTP API run, and their memory is measured.
"""

import random
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from datetime import timedelta

from ops import connection
from ops.dev import shipped
from ops.dev.bench import resident
from ops.dev.bench.figures import Figure
from ops.dev.bench.talk import START
from ops.dev.embedders import WrappedEmbedder
from ops.dev.eval.samples import samples
from ops.dev.observe import Say, timed
from ops.dev.shipped import Shipped
from pipeline.clients import onnx, onnx_bundled, sentence_transformers
from pipeline.clients.protocols import Embedder
from pipeline.clients.sentence_transformers import SentenceTransformersEmbedder
from schemas.messages import ChatIn, MessageIn
from schemas.vectors import EmbeddingSpace, Vector
from workers import queues

CHATS, MESSAGES_PER_CHAT = 20, 600
# Rounds and their rows, in turn with the bare model; as many without and with a busy process beside them.
ROUNDS, ROWS = 4, 1024
SECONDS = 40.0
"""After which no round begins, alone or beside the busy process: a slow machine counts fewer."""
ALONE, BUSY = 0.85, 0.70
FLOAT32_TEXTS = 256
"""Of each round: it is slow."""
OF_FLOAT32 = 2.5
"""Times that from rows to rows it must be faster."""


def measure(say: Say) -> list[Figure]:
    """Embed some 10,000 chat messages, 69 characters in the mean."""
    with shipped.temporary(connection.configured(), durable=True) as backscroll:
        say("accepting and placing")
        said = list(messages(CHATS * MESSAGES_PER_CHAT))
        for number in range(CHATS):
            part = said[number * MESSAGES_PER_CHAT : (number + 1) * MESSAGES_PER_CHAT]
            backscroll.accept(ChatIn(chat_id=f"bench:{number}"), part)
        backscroll.run_all("ingest")
        backscroll.resources.embedder = model = NotingEmbedder(backscroll.resources.embedder)
        _embed_rows(backscroll, 256)
        float32 = _float32(model.space)
        found = []
        for name, limit, beside in (("alone", ALONE, nullcontext), ("beside a busy process", BUSY, _busy)):
            say(name)
            with beside():
                found += _compare(backscroll, model, name, limit, float32 if beside is nullcontext else None)
        return [*found, *resident.measure(backscroll, say)]


class NotingEmbedder(WrappedEmbedder):
    """The model, with the texts that it was asked to embed."""

    def __init__(self, inner: Embedder) -> None:
        super().__init__(inner)
        self.texts: list[str] = []

    def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        self.texts.extend(texts)
        return self.inner.embed_documents(texts)


def _float32(space: EmbeddingSpace) -> Embedder | None:
    """Make the same model in float32, loaded; None if there is no other."""
    is_english = (space.provider, space.model) == (onnx.PROVIDER, onnx_bundled.ENGLISH.model)
    if not (is_english and sentence_transformers.is_installed()):
        return None
    embedder = SentenceTransformersEmbedder(space.model)
    embedder.load()
    return embedder


def _compare(
    backscroll: Shipped, model: NotingEmbedder, name: str, limit: float, float32: Embedder | None
) -> list[Figure]:
    """Embed from rows to rows, with the bare model, and in float32, in turn."""
    deadline = time.monotonic() + SECONDS
    count, rows_ms, bare_ms = 0, 0.0, 0.0
    float32_count, float32_ms = 0, 0.0
    while not count or (count < ROUNDS * ROWS and time.monotonic() < deadline):
        model.texts.clear()
        ms, done = timed(_embed_rows, backscroll, ROWS)
        count += done
        rows_ms += ms
        # not in the order in which the handler has sorted them
        texts = random.Random(count).sample(model.texts, len(model.texts))  # noqa: S311
        bare_ms += timed(model.inner.embed_documents, texts)[0]
        if float32 is not None:
            float32_count += len(texts[:FLOAT32_TEXTS])
            float32_ms += timed(float32.embed_documents, texts[:FLOAT32_TEXTS])[0]
    of_all, rate, ratio = f"{name}: {count:,} texts", 1000 * count / rows_ms, bare_ms / rows_ms
    rows = f"{of_all}, rows to rows, claims of {queues.EMBED.batch}"
    found = [
        Figure(f"{of_all}, the bare model, {ROWS:,} at once", 1000 * count / bare_ms, "/s"),
        Figure(rows, rate, "/s", ratio=ratio, limit=limit, more_is_better=True),
    ]
    if float32_ms:
        slow = 1000 * float32_count / float32_ms
        case = f"{name}: {float32_count:,} texts, sentence-transformers in float32"
        found += [
            Figure(case, slow, "/s"),
            Figure(
                f"{rows}, beside it", rate, "/s", ratio=rate / slow, limit=OF_FLOAT32, more_is_better=True
            ),
        ]
    return found


def _embed_rows(backscroll: Shipped, wanted: int) -> int:
    """Let the shipped handler do `wanted` rows or some more; how many."""
    done = 0
    while done < wanted:
        outcome = backscroll.run("embed")
        if not outcome.finished:
            raise RuntimeError("nothing was embedded")
        done += outcome.finished
    return done


def messages(count: int) -> Iterator[MessageIn]:
    """Make messages of what is said in the sample chats, now and then of two such texts; no two alike."""
    said = [message.content for sample in samples() for message in sample.messages if message.content]
    rng = random.Random(1)  # noqa: S311
    for number in range(count):
        parts = rng.sample(said, 2 if rng.random() < 0.25 else 1)
        yield MessageIn(
            external_id=f"e{number}",
            sender_id=f"bench:{number % 5}",
            sender_name="Ann",
            content=f"{' '.join(parts)} {number}",
            # in sessions of twenty
            sent_at=START + timedelta(minutes=number + 60 * (number // 20)),
        )


@contextmanager
def _busy() -> Iterator[None]:
    """Keep a core full with a process of its own."""
    loop = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        yield
    finally:
        loop.kill()
        loop.wait()
