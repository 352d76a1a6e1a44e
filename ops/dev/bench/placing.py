"""How fast accepted messages are placed: in many chats, and by two workers beside one.

On a Postgres of its own that does not wait for the disk, as the work of placing is measured. The shipped handler does
it with the shipped batch, in this process or, where two workers are compared with one, in processes.
"""

import multiprocessing
from collections.abc import Iterator
from multiprocessing.synchronize import Barrier
from statistics import median

from ops.dev import shipped
from ops.dev.bench.talk import numbered
from ops.dev.figures import Figure
from ops.dev.observe import Say, count, timed
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
RACE_SECONDS = 60.0
"""Within which processes start, and within which they place all."""


def measure(say: Say) -> list[Figure]:
    """Measure all of it. Raises what starting Postgres raises."""
    with shipped.temporary() as backscroll:
        return [_many_chats(backscroll, say), *_two_workers(backscroll, say)]


def _many_chats(backscroll: Shipped, say: Say) -> Figure:
    """Place one message in each of many chats; return the median of several rounds."""
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
        rates[workers] = BUSY_CHATS / _race(backscroll.settings, workers)
    ratio, of_keys = rates[2] / rates[1], f"{KEYS} session keys a chat"
    yield Figure(f"{of_keys}, one worker", rates[1], "chats/s")
    yield Figure(f"{of_keys}, two workers beside one", rates[2], "chats/s", ratio=ratio, least=TWO_BESIDE_ONE)
    with backscroll.superuser() as connection:
        yield Figure("messages not placed", count(connection, "SELECT count(*) FROM arrivals"), most=0)
        statement = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
        yield Figure("deadlocks of two workers", count(connection, statement), most=0)


def _race(settings: Settings, workers: int) -> float:
    """Return the seconds in which this number of processes places all that waits."""
    context = multiprocessing.get_context("spawn")
    together = context.Barrier(workers + 1)
    processes = [
        context.Process(target=_work, args=(settings, together), daemon=True) for _ in range(workers)
    ]
    for process in processes:
        process.start()
    together.wait(RACE_SECONDS)
    ms, _ = timed(together.wait, RACE_SECONDS)
    for process in processes:
        process.join(RACE_SECONDS)
    return ms / 1000


def _work(settings: Settings, together: Barrier) -> None:
    """Do what a worker process does, one batch after the other, until nothing is left to claim."""
    configure_logging("warning")
    resources = Resources(settings)
    resources.database.check()
    together.wait()
    policy, handler = resources.policy("ingest"), resources.handler("ingest")
    while runner.run(resources.database, "ingest", handler, policy).claimed:
        pass
    together.wait()
    resources.database.close()
