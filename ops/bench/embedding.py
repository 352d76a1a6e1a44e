"""How fast texts become vectors, from rows to rows, beside the bare model; alone, and beside a process that is busy.

Both embed the same texts in turn with the same model: the shipped handler claims, loads, embeds, saves and finishes on
a durable Postgres of its own, the bare model is given all of them at once. What is judged is how much of its rate is
left, as the rates are one machine's at one hour.
"""

import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from datetime import UTC, datetime, timedelta
from pathlib import Path

from ops import connection, migrate
from ops.bench.cases import Case, Say
from ops.embedded.postgres import EmbeddedPostgres
from ops.eval.samples import samples
from pipeline.clients.factory import make_embedder
from pipeline.clients.protocols import Embedder
from pipeline.enrich import embed
from pipeline.ingest import accept
from pipeline.jobs import runner
from pipeline.jobs.runner import Policy
from schemas.messages import ChatIn, MessageIn
from schemas.settings import Settings
from schemas.vectors import EmbeddingSpace, Vector
from workers import queues
from workers.resources import Resources

CHATS, EACH = 20, 600
# Rounds of so many rows, in turn with the bare model; as many without and with a busy process beside them.
ROUNDS, ROWS = 4, 1024
CLAIMS = (32, 128, 256)
"""Sizes of claims that are tried beside the shipped one, half a round's rows each."""
SECONDS = 40.0
"""Alone and beside the busy process no round is begun after so long: fewer are counted on a slow machine."""
ALONE, BUSY = 0.80, 0.70
START = datetime(2025, 1, 6, 8, 0, tzinfo=UTC)


def measure(say: Say) -> list[Case]:
    """Embed some 10,000 chat messages, 69 characters in the mean."""
    with tempfile.TemporaryDirectory(prefix="backscroll-bench-") as folder, _resources(Path(folder)) as held:
        say("accepting and placing")
        _fill(held)
        model = _Noting(held.embedder)
        bench = _Bench(held, model)
        bench.rows(256, queues.EMBED.batch)
        found = []
        for name, limit, beside in (("alone", ALONE, nullcontext), ("beside a busy process", BUSY, _busy)):
            say(name)
            with beside():
                found += bench.compare(name, limit)
        for size in CLAIMS:
            say(f"claims of {size}")
            done, seconds = bench.rows(ROWS // 2, size)
            found.append(Case(case=f"alone: rows to rows, claims of {size}", value=done / seconds, unit="/s"))
        found.append(Case(case="resident memory at the end", value=_resident_mb(), unit="MB"))
        return found


class _Noting:
    """The model, with what it was asked to embed."""

    def __init__(self, inner: Embedder) -> None:
        self.inner = inner
        self.texts: list[str] = []

    @property
    def space(self) -> EmbeddingSpace:
        return self.inner.space

    @property
    def max_tokens(self) -> int:
        return self.inner.max_tokens

    def count_tokens(self, text: str) -> int:
        return self.inner.count_tokens(text)

    def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        self.texts.extend(texts)
        return self.inner.embed_documents(texts)

    def embed_query(self, text: str) -> Vector:
        return self.inner.embed_query(text)


class _Bench:
    def __init__(self, held: Resources, model: _Noting) -> None:
        self._held = held
        self._model = model
        self._handler = embed.embedder(held.database, model)

    def compare(self, name: str, limit: float) -> list[Case]:
        """Rows to rows and the bare model in turn."""
        deadline = time.monotonic() + SECONDS
        count, rows_seconds, bare_seconds = 0, 0.0, 0.0
        while not count or (count < ROUNDS * ROWS and time.monotonic() < deadline):
            self._model.texts.clear()
            done, seconds = self.rows(ROWS, queues.EMBED.batch)
            count += done
            rows_seconds += seconds
            # not in the order in which the handler has sorted them
            texts = random.Random(count).sample(self._model.texts, len(self._model.texts))  # noqa: S311
            started = time.monotonic()
            self._model.inner.embed_documents(texts)
            bare_seconds += time.monotonic() - started
        of_all = f"{name}: {count:,} texts"
        return [
            Case(case=f"{of_all}, the bare model, {ROWS:,} at once", value=count / bare_seconds, unit="/s"),
            Case(
                case=f"{of_all}, rows to rows, claims of {queues.EMBED.batch}",
                value=count / rows_seconds,
                unit="/s",
                ratio=bare_seconds / rows_seconds,
                limit=limit,
                more_is_better=True,
            ),
        ]

    def rows(self, wanted: int, claimed: int) -> tuple[int, float]:
        """Let the shipped handler do so many rows, so many claimed at a time: `(rows, seconds)`."""
        settings = self._held.settings
        policy = Policy(
            batch=claimed, lease_seconds=settings.lease_seconds, max_attempts=settings.work_max_attempts
        )
        done, started = 0, time.monotonic()
        while done < wanted:
            outcome = runner.run(self._held.database, "embed", self._handler, policy)
            if not outcome.finished:
                raise RuntimeError("nothing was embedded")
            done += outcome.finished
        return done, time.monotonic() - started


def _fill(held: Resources) -> None:
    """Messages that are owed their vectors."""
    said = list(_messages(CHATS * EACH))
    for number in range(CHATS):
        chat = ChatIn(chat_id=f"bench:{number}")
        accept.accept(held.database, held.settings.tenant, chat, said[number * EACH : (number + 1) * EACH])
    while runner.run(held.database, "ingest", held.placer, held.policy("ingest")).claimed:
        pass


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
def _resources(folder: Path) -> Iterator[Resources]:
    """What a worker holds, on a Postgres that writes as surely as a real one."""
    configured = connection.configured()
    with EmbeddedPostgres(folder, durable=True) as server:
        migrate.upgrade(server.dsn("owner"), make_embedder(configured).space)
        ours = {
            "database_url": server.dsn("app"),
            "maintenance_database_url": server.dsn("maintenance"),
            "summarize_debounce_seconds": 0,
        }
        held = Resources(Settings.model_validate({**configured.model_dump(by_alias=False), **ours}))
        try:
            yield held
        finally:
            held.database.close()


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
