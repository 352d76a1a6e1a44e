"""How fast accepted messages are placed: in many chats, under many session keys, by two workers, from a long queue.

On a Postgres of its own that does not wait for the disk: what is measured is the work of placing. It is done by the
shipped handler with the shipped batch, in this process or, where two workers are compared with one, in processes.
"""

import multiprocessing
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from multiprocessing.synchronize import Event
from pathlib import Path
from statistics import median

import psycopg
from sqlalchemy import Engine, event

from ops import migrate
from ops.bench.cases import Case, Say
from ops.embedded.postgres import EmbeddedPostgres
from ops.embedded.roles import DATABASE
from pipeline.ingest import accept
from pipeline.jobs import runner
from schemas.messages import MAX_BATCH, ChatIn, MessageIn
from schemas.settings import Settings
from workers.logging import configure_logging
from workers.resources import Resources

CHATS, ROUNDS = 200, 5
CHATS_PER_SECOND = 400
"""What one worker should place at least, a message in each."""

BUSY_CHATS, KEYS = 2000, 10
TWO_BESIDE_ONE = 1.6
RACE_SECONDS = 20.0
"""After which a race of workers is called off, and what they have placed by then counts."""

BACKLOG = 100_000
EDGE = 10
"""So many turns at either end of the queue are compared."""

MANY_KEYS = 500
STATEMENTS_RATIO = 1.5
START = datetime(2026, 1, 5, 8, 0, tzinfo=UTC)


def measure(say: Say) -> list[Case]:
    """All of it, within some two minutes. Raises what starting Postgres raises; nothing is kept."""
    with (
        tempfile.TemporaryDirectory(prefix="backscroll-bench-") as folder,
        EmbeddedPostgres(Path(folder), durable=False) as server,
    ):
        migrate.upgrade(server.dsn("owner"), None)
        settings = Settings(
            _env_file=None,
            database_url=server.dsn("app"),
            maintenance_database_url=server.dsn("maintenance"),
            embedding_provider="deterministic",
        )
        resources = Resources(settings)
        try:
            return [
                _many_chats(resources, say),
                _many_keys(resources, say),
                *_backlog(resources, say),
                # last: what they are called off from is left
                *_two_workers(resources, server, say),
            ]
        finally:
            resources.database.close()


def _many_chats(resources: Resources, say: Say) -> Case:
    """One message in each of many chats; the median of several rounds."""
    rates = []
    for number in range(ROUNDS):
        say(f"one message in each of {CHATS} chats, {number + 1} of {ROUNDS}")
        for chat in range(CHATS):
            _accept(resources, f"many:{chat}", [_message(number)])
        began = time.monotonic()
        _place_all(resources)
        rates.append(CHATS / (time.monotonic() - began))
    return Case(
        case=f"one message in each of {CHATS} chats, one worker",
        value=round(median(rates[1:])),
        unit="chats/s",
        limit=CHATS_PER_SECOND,
        more_is_better=True,
    )


def _two_workers(resources: Resources, server: EmbeddedPostgres, say: Say) -> Iterator[Case]:
    """Chats with a message under each of several session keys: placed by one worker process, then by two."""
    rates = {}
    for workers in (1, 2):
        say(f"{BUSY_CHATS} chats with {KEYS} session keys each, workers: {workers}")
        for chat in range(BUSY_CHATS):
            said = [_message(n, session_key=f"key-{n}") for n in range(KEYS)]
            _accept(resources, f"keys:{workers}:{chat}", said)
        rates[workers] = _race(resources.settings, server, workers)
    alone = f"{KEYS} session keys a chat, one worker"
    yield Case(case=alone, value=round(rates[1], 1), unit="chats/s")
    yield Case(
        case=f"{KEYS} session keys a chat, two workers beside one",
        value=round(rates[2], 1),
        unit="chats/s",
        ratio=round(rates[2] / rates[1], 2),
        limit=TWO_BESIDE_ONE,
        more_is_better=True,
    )
    with psycopg.connect(server.superuser_dsn(DATABASE), autocommit=True) as connection:
        deadlocks = _count(
            connection, "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
        )
    yield Case(case="deadlocks of two workers", value=deadlocks, unit="deadlocks", limit=0)


def _race(settings: Settings, server: EmbeddedPostgres, workers: int) -> float:
    """Chats placed a second by so many processes."""
    context = multiprocessing.get_context("spawn")
    ready = [context.Event() for _ in range(workers)]
    go, end = context.Event(), context.Event()
    processes = [context.Process(target=_work, args=(settings, each, go, end), daemon=True) for each in ready]
    for process in processes:
        process.start()
    for each in ready:
        if not each.wait(60):
            raise TimeoutError("a worker process did not start within a minute")
    with psycopg.connect(server.superuser_dsn(DATABASE), autocommit=True) as connection:
        waiting = "SELECT count(DISTINCT chat_id) FROM arrivals"
        before = _count(connection, waiting)
        began = time.monotonic()
        go.set()
        while time.monotonic() < began + RACE_SECONDS:
            time.sleep(0.05)
            if not _count(connection, "SELECT count(*) FROM (SELECT 1 FROM arrivals LIMIT 1) any_left"):
                break
        spent = time.monotonic() - began
        left = _count(connection, waiting)
    end.set()
    for process in processes:
        process.join(60)
    return (before - left) / spent


def _work(settings: Settings, ready: Event, go: Event, end: Event) -> None:
    """What a worker process does: one batch after the other."""
    configure_logging("warning")
    resources = Resources(settings)
    policy = resources.policy("ingest")
    resources.database.check()
    ready.set()
    go.wait()
    while not end.is_set():
        if not runner.run(resources.database, "ingest", resources.placer, policy).claimed:
            time.sleep(0.02)
    resources.database.close()


def _many_keys(resources: Resources, say: Say) -> Case:
    """As many messages under one session key and under a key each."""
    say(f"{MANY_KEYS} session keys in one turn")
    counted = {}
    for keys in (1, MANY_KEYS):
        said = [_message(n, session_key=f"key-{n % keys}") for n in range(MANY_KEYS)]
        _accept(resources, f"statements:{keys}", said)
        with _statements() as statements:
            _place_all(resources)
        counted[keys] = len(statements)
    return Case(
        case=f"{MANY_KEYS} messages under {MANY_KEYS} session keys beside one key",
        value=counted[MANY_KEYS],
        unit="statements",
        ratio=round(counted[MANY_KEYS] / counted[1], 2),
        limit=STATEMENTS_RATIO,
    )


@contextmanager
def _statements() -> Iterator[Sequence[str]]:
    """The statements that are sent meanwhile."""
    seen: list[str] = []

    def see(_connection: object, _cursor: object, statement: str, *_: object) -> None:
        seen.append(statement)

    event.listen(Engine, "before_cursor_execute", see)
    try:
        yield seen
    finally:
        event.remove(Engine, "before_cursor_execute", see)


def _backlog(resources: Resources, say: Say) -> Iterator[Case]:
    """One chat with a long queue: a turn at its beginning and one at its end."""
    for start in range(0, BACKLOG, MAX_BATCH):
        say(f"{BACKLOG} messages into one chat: {start}")
        _accept(resources, "backlog:1", [_message(n) for n in range(start, start + MAX_BATCH)])
    took = []
    while True:
        began = time.monotonic()
        if not runner.run(resources.database, "ingest", resources.placer, resources.policy("ingest")).claimed:
            break
        took.append(time.monotonic() - began)
        say(f"turns of placing: {len(took)}")
    first, last = median(took[:EDGE]), median(took[-EDGE - 1 : -1])
    yield Case(
        case=f"a turn while {BACKLOG} wait in its chat, beside the last turns",
        value=round(1000 * first, 1),
        unit="ms",
        ratio=round(first / last, 2),
    )
    yield Case(case=f"{BACKLOG} waiting in one chat", value=round(BACKLOG / sum(took)), unit="messages/s")


def _place_all(resources: Resources) -> None:
    while runner.run(resources.database, "ingest", resources.placer, resources.policy("ingest")).claimed:
        pass


def _accept(resources: Resources, chat_id: str, said: Sequence[MessageIn]) -> None:
    accept.accept(resources.database, resources.settings.tenant, ChatIn(chat_id=chat_id), said)


def _message(number: int, session_key: str = "") -> MessageIn:
    """Sessions of some twenty messages."""
    return MessageIn(
        external_id=f"b{number}",
        sender_id=f"bench:{number % 5}",
        content=f"Message {number} tells of the harbour, the lamp and {number * 7919 % 10007} other things.",
        sent_at=START + timedelta(minutes=number, hours=number // 20),
        session_key=session_key,
    )


def _count(connection: psycopg.Connection, statement: str) -> int:
    row = connection.execute(statement).fetchone()
    return int(row[0]) if row else 0
