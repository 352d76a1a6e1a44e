"""How fast accepted messages are placed: in many chats, and by two workers beside one.

On a Postgres of its own that does not wait for the disk, as the work of placing is measured. The shipped handler does
it with the shipped batch, in this process or, where two workers are compared with one, in processes.
"""

import multiprocessing
import time
from collections.abc import Iterator
from multiprocessing.synchronize import Event
from statistics import median

from ops.dev import shipped
from ops.dev.bench.figures import Figure
from ops.dev.bench.talk import numbered
from ops.dev.observe import Say, count, timed, wait
from ops.dev.shipped import Shipped
from pipeline.jobs import runner
from schemas.messages import ChatIn
from schemas.settings import Settings
from workers.logging import configure_logging
from workers.resources import Resources

CHATS, ROUNDS = 200, 5
LEAST_CHATS_PER_SECOND = 400
"""Of one worker, a message in each."""

BUSY_CHATS, KEYS = 2000, 10
TWO_BESIDE_ONE = 1.6
RACE_SECONDS = 20.0
"""After which a race of workers is called off; what they have placed by then counts."""


def measure(say: Say) -> list[Figure]:
    """Measure all of it. Raises what starting Postgres raises."""
    with shipped.temporary() as backscroll:
        return [
            _many_chats(backscroll, say),
            # last, as it leaves what the workers are called off from
            *_two_workers(backscroll, say),
        ]


def _many_chats(backscroll: Shipped, say: Say) -> Figure:
    """Place one message in each of many chats; the median of several rounds."""
    rates = []
    for number in range(ROUNDS):
        say(f"one message in each of {CHATS} chats, {number + 1} of {ROUNDS}")
        for chat in range(CHATS):
            backscroll.accept(ChatIn(chat_id=f"many:{chat}"), numbered(range(number, number + 1)))
        ms, _ = timed(backscroll.run_all, "ingest")
        rates.append(1000 * CHATS / ms)
    case = f"one message in each of {CHATS} chats, one worker"
    return Figure(case, median(rates[1:]), "chats/s", least=LEAST_CHATS_PER_SECOND)


def _two_workers(backscroll: Shipped, say: Say) -> Iterator[Figure]:
    """Chats with a message under each of several session keys: placed by one worker process, then by two."""
    rates = {}
    for workers in (1, 2):
        say(f"{BUSY_CHATS} chats with {KEYS} session keys each, workers: {workers}")
        for chat in range(BUSY_CHATS):
            backscroll.accept(ChatIn(chat_id=f"keys:{workers}:{chat}"), numbered(range(KEYS), KEYS))
        rates[workers] = _race(backscroll, workers)
    ratio, of_keys = rates[2] / rates[1], f"{KEYS} session keys a chat"
    yield Figure(f"{of_keys}, one worker", rates[1], "chats/s")
    yield Figure(f"{of_keys}, two workers beside one", rates[2], "chats/s", ratio=ratio, least=TWO_BESIDE_ONE)
    with backscroll.superuser() as connection:
        statement = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
        yield Figure("deadlocks of two workers", count(connection, statement), most=0)


def _race(backscroll: Shipped, workers: int) -> float:
    """Chats that this number of processes places in a second."""
    context = multiprocessing.get_context("spawn")
    ready = [context.Event() for _ in range(workers)]
    go, end = context.Event(), context.Event()
    processes = [
        context.Process(target=_work, args=(backscroll.settings, each, go, end), daemon=True)
        for each in ready
    ]
    for process in processes:
        process.start()
    for each in ready:
        if not each.wait(60):
            raise TimeoutError("a worker process did not start within a minute")
    with backscroll.superuser() as connection:
        waiting = "SELECT count(DISTINCT chat_id) FROM arrivals"
        any_left = "SELECT count(*) FROM (SELECT 1 FROM arrivals LIMIT 1) any_left"
        before = count(connection, waiting)
        go.set()
        spent = wait(lambda: not count(connection, any_left), RACE_SECONDS) or RACE_SECONDS
        left = count(connection, waiting)
    end.set()
    for process in processes:
        process.join(60)
    return (before - left) / spent


def _work(settings: Settings, ready: Event, go: Event, end: Event) -> None:
    """Do what a worker process does: one batch after the other."""
    configure_logging("warning")
    resources = Resources(settings)
    resources.database.check()
    ready.set()
    go.wait()
    while not end.is_set():
        policy = resources.policy("ingest")
        if not runner.run(resources.database, "ingest", resources.handler("ingest"), policy).claimed:
            time.sleep(0.02)
    resources.database.close()
