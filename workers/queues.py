"""The queues, the worker that serves each and why, and wake-ups.

Kinds of jobs have separate queues and workers: priorities emulated on Redis are unreliable, and a long backfill must
never come before a message. Names have the prefix `backscroll.`: a queue's name is its key in Redis.
"""

import json
import os
from dataclasses import dataclass
from typing import Any, Literal

import structlog
from celery import Celery
from celery.utils.nodenames import gethostname
from kombu.exceptions import OperationalError
from redis import Redis
from redis.exceptions import RedisError, ResponseError

from schemas.errors import QueueUnavailable
from schemas.facts import RULES
from schemas.kinds import DIGEST, EXTRACT, KINDS, ROLLUP
from schemas.kinds import SUMMARIZE as SUMMARIZE_KIND
from schemas.sessions import EXTRACTIVE
from schemas.settings import Settings
from workers.logging import OUTAGES

log = structlog.get_logger(OUTAGES)


@dataclass(frozen=True, kw_only=True)
class Queue:
    """A queue and the worker process that serves it."""

    # its name in `backscroll worker NAME`
    name: str
    pool: Literal["prefork", "threads"]
    concurrency: int
    # seconds until a task is interrupted, and until its process is killed (prefork only)
    soft_limit: int | None = None
    hard_limit: int | None = None
    # rows claimed at once: claims are fair among tenants, but others wait for the running batch
    batch: int = 1
    # tasks after which a child is replaced, as long runs leak memory
    max_tasks: int | None = None

    @property
    def full_name(self) -> str:
        """Return its name in Redis, such as `backscroll.embed`."""
        return f"backscroll.{self.name}"


# Payload tasks of bots that enqueue directly. No time limit: they wait while Postgres is down, and a killed task would
# be acknowledged, its messages lost.
ACCEPT = Queue(name="accept", pool="prefork", concurrency=1, max_tasks=10_000)
INGEST = Queue(
    name="ingest", pool="prefork", concurrency=1, soft_limit=60, hard_limit=90, batch=50, max_tasks=10_000
)
# A model for each process, with as many threads as there are cores. Many rows, so that the model's batches are full of
# texts of similar length; rows not reached in time are released (`embed.TURN_SECONDS`).
EMBED = Queue(name="embed", pool="prefork", concurrency=1, soft_limit=90, hard_limit=110, batch=512)
# Waiting for a language model costs threads nothing; a client's timeout is shorter than the lease. The batch is that of
# extraction (`batch_of`): with one job each, sixteen threads would all lose theirs with the one that kills the process.
SUMMARIZE = Queue(name="summarize", pool="threads", concurrency=16, batch=8)
# Prune, backfill and forget: rare and long, so that they must not starve the others.
BACKFILL = Queue(
    name="backfill", pool="prefork", concurrency=1, soft_limit=90, hard_limit=110, batch=1, max_tasks=1000
)

# Short and frequent: making up for lost wake-ups and closing idle sessions must not wait for anything else. A thread in
# the worker itself, without children: Postgres' own timeouts end statements that hang.
SWEEP = Queue(name="sweep", pool="threads", concurrency=1)

QUEUES = {queue.name: queue for queue in (ACCEPT, INGEST, EMBED, SUMMARIZE, BACKFILL, SWEEP)}
# What events, and so Flower, show of a payload, which contains people's texts.
HIDDEN = {"argsrepr": "()", "kwargsrepr": "{…}"}

# Its remaining lifetime tells when the last sweep was, as sweeps send no events.
SWEPT = "backscroll.swept"
SWEPT_SECONDS = 86_400

# The queue of each kind of job; the task is named after the kind.
OF_KIND = {name: QUEUES[kind.queue] for name, kind in KINDS.items()}


def batch_of(kind: str, settings: Settings) -> int:
    """Return how many jobs of a kind are claimed at once: one if each may use up its lease, waiting for a server."""
    if kind == DIGEST.name:
        return 1
    if kind in {SUMMARIZE_KIND.name, ROLLUP.name} and settings.session_summary_model != EXTRACTIVE:
        return 1
    if kind == EXTRACT.name and settings.learning_model() != RULES:
        return 1
    return OF_KIND[kind].batch


# Wake-ups of a kind that may wait besides two for each worker of its queue. Each covers a batch, and its worker repeats
# it while there is more: further ones would be useless.
SPARE_WAKE_UPS = 20


def wake_up(app: Celery, kind: str, times: int = 1) -> None:
    """Send up to `times` wake-ups to the workers of a kind, unless enough of them wait.

    A failure is only logged: the jobs are in the database, and the sweep sends wake-ups again.
    """
    queue = OF_KIND[kind]
    try:
        # not the channel's own client, which may have an unread answer for a consumer waiting for a task
        with (
            app.pool.acquire(block=True) as connection,
            connection.default_channel.conn_or_acquire() as client,
        ):
            room = 2 * queue.concurrency + SPARE_WAKE_UPS - _waiting(client, kind)
        for _ in range(min(times, room)):
            app.send_task(f"backscroll.{kind}", queue=queue.full_name, retry=False)
    except (OperationalError, RedisError, OSError) as error:
        log.warning("wake_up_failed", kind=kind, error=str(error))


def waiting(app: Celery, kind: str) -> int:
    """Return how many wake-ups of a kind wait. Raises `kombu.exceptions.OperationalError` when Redis is away."""
    with app.connection_for_read() as connection:
        return _waiting(connection.default_channel.client, kind)


def _waiting(client: Redis, kind: str) -> int:
    # each kind has room of its own: one that has much to do would keep the others of its queue waiting
    name = f'"task": "backscroll.{kind}"'.encode()
    return sum(name in task for task in client.lrange(OF_KIND[kind].full_name, 0, -1))


def enqueue_payload(app: Celery, payload: str, trace_id: str | None) -> None:
    """Queue a refused payload, JSON with `args` and `kwargs`, unchanged. Raises `QueueUnavailable`."""
    headers = {} if trace_id is None else {"request_id": trace_id}
    options = HIDDEN | {"queue": ACCEPT.full_name, "headers": headers, "retry": False}
    try:
        app.send_task("backscroll.ingest", **json.loads(payload), **options)
    except (OperationalError, RedisError, OSError) as error:
        raise QueueUnavailable(f"Redis does not answer ({error}): no payload can be queued") from error


def length(app: Celery, queue: str) -> int:
    """Return how many tasks wait in a queue. Raises `kombu.exceptions.OperationalError` when Redis is away."""
    with app.connection_for_read() as connection:
        return int(connection.default_channel._size(queue))


# The next task in the queue of payloads, and since when it is next, as tasks carry no time.
OLDEST = "backscroll.accept.oldest"
_NOTE_OLDEST = """
    local task = redis.call('LINDEX', KEYS[1], -1)
    if not task then return redis.call('DEL', KEYS[2]) end
    local mark = redis.sha1hex(string.sub(task, -1000))
    if redis.call('HGET', KEYS[2], 'mark') ~= mark then
        redis.call('HSET', KEYS[2], 'mark', mark, 'since', redis.call('TIME')[1])
    end
"""


def note_sweep(app: Celery) -> None:
    """Record that a sweep has just finished, and which payload task is the oldest.

    Raises `kombu.exceptions.OperationalError` when Redis is down.
    """
    with app.connection_for_write() as connection:
        try:
            client = connection.default_channel.client
            client.set(SWEPT, 1, ex=SWEPT_SECONDS)
            client.eval(_NOTE_OLDEST, 2, ACCEPT.full_name, OLDEST)
        except ResponseError as error:
            # Redis is full, but the sweep itself is done
            log.warning("sweep_not_noted", error=str(error))


def seconds_since_sweep(app: Celery) -> float | None:
    """Return the seconds since the last sweep, by Redis' clock; None: none within a day. Raises as `length` does."""
    with app.connection_for_read() as connection:
        left = int(connection.default_channel.client.pttl(SWEPT))
    return None if left < 0 else SWEPT_SECONDS - left / 1000


def oldest_payload_seconds(app: Celery) -> float:
    """Return how long sweeps have seen the same payload task as the next one. Raises as `length` does."""
    with app.connection_for_read() as connection:
        client = connection.default_channel.client
        since = client.hget(OLDEST, "since")
        return float(client.time()[0] - int(since)) if since else 0.0


def worker_arguments(queues: list[Queue]) -> list[str]:
    """Return the arguments of `celery -A workers.app …` for a worker of these queues, led by the first one."""
    leader = queues[0]
    arguments: list[Any] = [
        "worker",
        *("-Q", ",".join(queue.full_name for queue in queues)),
        # with this process, which becomes the worker or starts it: two of a name would be taken for one
        *("-n", f"{leader.name}@{gethostname()}-{os.getpid()}"),
        *("--pool", leader.pool),
        # a queue of another pool than the first's adds only one: its 16 threads would be 16 processes
        *("--concurrency", sum(q.concurrency if q.pool == leader.pool else 1 for q in queues)),
        # Only Flower listens to events, and it enables them itself.
        "--without-gossip",
        "--without-mingle",
    ]
    limits = {
        "--soft-time-limit": leader.soft_limit,
        "--time-limit": leader.hard_limit,
        "--max-tasks-per-child": leader.max_tasks,
    }
    if leader.pool == "prefork":
        arguments += [part for name, value in limits.items() if value for part in (name, value)]
    return [str(argument) for argument in arguments]
