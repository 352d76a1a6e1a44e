"""The queues, what kind of worker serves each and why, and the hints that wake them.

A queue and a worker for each kind of work: priorities emulated on Redis are not kept, and a long backfill must
never stand before a message. Names carry the prefix `backscroll.`: a queue's name is its key in Redis.
"""

import json
from dataclasses import dataclass
from typing import Any, Literal

import structlog
from celery import Celery
from celery.utils.nodenames import gethostname
from kombu.exceptions import OperationalError

log = structlog.get_logger(__name__)


@dataclass(frozen=True, kw_only=True)
class Queue:
    """A queue and the worker process that serves it."""

    # what `backscroll worker NAME` calls it
    name: str
    pool: Literal["prefork", "threads"]
    concurrency: int
    # seconds until a task is told to stop, and until its process is killed (prefork alone)
    soft_limit: int | None = None
    hard_limit: int | None = None
    # start children afresh instead of forking: torch does not survive a fork
    spawn: bool = False
    # rows claimed at once: claims are fair among tenants, but whoever comes waits for the batch that is under way
    batch: int = 1
    # replace a child after so many tasks and above so many KiB: long runs leak, models aside
    max_tasks: int | None = None
    max_memory_kib: int | None = None

    @property
    def full_name(self) -> str:
        """Its name in Redis, such as `backscroll.embed`."""
        return f"backscroll.{self.name}"


# Payload tasks of bots that enqueue themselves. No time limit: while Postgres is away they wait, and a killed
# task would be acknowledged, its messages lost.
ACCEPT = Queue(name="accept", pool="prefork", concurrency=1, max_tasks=10_000)
INGEST = Queue(
    name="ingest", pool="prefork", concurrency=1, soft_limit=60, hard_limit=90, batch=5, max_tasks=10_000
)
# A model for each process, and as many threads inside as there are cores. Many rows, so that the model's batches are
# full of texts of like length; what does not get its turn is handed back (`embed.TURN_SECONDS`).
EMBED = Queue(
    name="embed", pool="prefork", concurrency=1, spawn=True, soft_limit=90, hard_limit=110, batch=512
)
# Threads wait for a language model at no cost; a client's timeout is shorter than the lease.
SUMMARIZE = Queue(name="summarize", pool="threads", concurrency=16, batch=8)
# Sweep, prune, backfill and forget: seldom, long, and not to starve the others.
BACKFILL = Queue(
    name="backfill", pool="prefork", concurrency=1, soft_limit=90, hard_limit=110, batch=1, max_tasks=1000
)

QUEUES = {queue.name: queue for queue in (ACCEPT, INGEST, EMBED, SUMMARIZE, BACKFILL)}
# Payloads that cannot be accepted wait here untouched; no worker serves it.
DEAD = "backscroll.dead"

# Which queue the hints of a kind of work go to; the task is called as the kind.
OF_KIND = {"ingest": INGEST, "embed": EMBED, "summarize": SUMMARIZE, "backfill": BACKFILL, "forget": BACKFILL}


def hint(app: Celery, kind: str, times: int = 1) -> None:
    """Tell the workers of a kind that there is something to claim.

    A hint that cannot be queued is only logged: the work is owed in the database, and the sweep hints again.
    """
    queue = OF_KIND[kind]
    try:
        for _ in range(times):
            app.send_task(f"backscroll.{kind}", queue=queue.full_name, retry=False)
    except OperationalError as error:
        log.warning("hint_failed", kind=kind, error=str(error))


def length(app: Celery, queue: str) -> int:
    """How many tasks wait in a queue. Raises `kombu.exceptions.OperationalError` when Redis is away."""
    with app.connection_for_read() as connection:
        return int(connection.default_channel.client.llen(queue))


def waiting(app: Celery, queue: str, task: str, among: int) -> int:
    """How many of the next so many tasks of a queue are of this name.

    Raises `kombu.exceptions.OperationalError` when Redis is away.
    """
    with app.connection_for_read() as connection:
        client = connection.default_channel.client
        return sum(_task_of(raw) == task for raw in client.lrange(queue, -among, -1))


def _task_of(raw: bytes) -> Any:
    """The name of the task that an entry of a queue is; None: something else that somebody has put there."""
    try:
        return json.loads(raw)["headers"]["task"]
    except (ValueError, LookupError, TypeError, RecursionError):
        return None


def worker_arguments(queues: list[Queue]) -> list[str]:
    """The arguments of `celery -A workers.app …` for a worker of these queues, led by the first one."""
    leader = queues[0]
    arguments: list[Any] = [
        "worker",
        *("-Q", ",".join(queue.full_name for queue in queues)),
        *("-n", f"{leader.name}@{gethostname()}"),
        *("--pool", leader.pool),
        # a queue of another pool than the first one's adds one: its 16 threads would be 16 processes
        *("--concurrency", sum(q.concurrency if q.pool == leader.pool else 1 for q in queues)),
        # Nobody else listens to events but Flower, which asks for them.
        "--without-gossip",
        "--without-mingle",
    ]
    limits = {
        "--soft-time-limit": leader.soft_limit,
        "--time-limit": leader.hard_limit,
        "--max-tasks-per-child": leader.max_tasks,
        "--max-memory-per-child": leader.max_memory_kib,
    }
    if leader.pool == "prefork":
        arguments += [part for name, value in limits.items() if value for part in (name, value)]
    return [str(argument) for argument in arguments]
