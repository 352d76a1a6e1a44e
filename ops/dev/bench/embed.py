"""How fast texts become vectors, from rows to rows, beside the bare model.

Both embed the same texts in turn with the same model: the shipped handler claims, loads, embeds, saves and finishes on
a durable Postgres, the bare model is given all of them at once. The ratio is judged, as the rates are one machine's at
one hour.
"""

import random
import time
from collections.abc import Iterator, Sequence
from datetime import timedelta

from ops.dev import shipped
from ops.dev.bench.talk import START
from ops.dev.embedders import WrappedEmbedder
from ops.dev.eval.samples import samples
from ops.dev.figures import Figure
from ops.dev.observe import Say, timed
from ops.dev.shipped import Shipped
from pipeline.clients.protocols import Embedder
from schemas.messages import ChatIn, MessageIn
from schemas.settings import Settings
from schemas.vectors import Vector
from workers import queues

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


def measure(settings: Settings, say: Say) -> Iterator[Figure]:
    """Embed some 10,000 chat messages, 69 characters in the mean."""
    with shipped.temporary(settings, durable=True) as backscroll:
        say("accepting and placing")
        made = list(messages(CHATS * MESSAGES_PER_CHAT))
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


def messages(count: int) -> Iterator[MessageIn]:
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
