"""The state of Redis, the queues and the workers, for `backscroll status`, the doctor and monitoring."""

from collections import Counter
from collections.abc import Set
from contextlib import closing, suppress
from dataclasses import dataclass, field

from celery import Celery
from kombu.exceptions import OperationalError
from redis.exceptions import RedisError, ResponseError

from pipeline.operations.doctor.facts import Broker
from schemas.errors import QueueUnavailable, SettingsError, WritesRefused
from schemas.settings import Settings
from workers.app import make_app
from workers.connection import client_of, probe
from workers.queues import ACCEPT, QUEUES, length, oldest_payload_seconds, seconds_since_sweep

ANSWER_SECONDS = (1.0, 3.0)
"""Timeouts of the first and second try to reach workers: most answer within milliseconds, on a busy machine at the
second try."""
POLL_SECONDS = 0.1
MAX_SCANS, MAX_LISTS = 100, 200
"""Steps of 1,000 keys in which lists of tasks that nobody reads are looked for, and lists that are looked into."""
# the number of tasks, if the first one looks like a message of kombu
_TASKS = """
    local item = redis.call('LINDEX', KEYS[1], -1) or ''
    return string.find(string.sub(item, 1, 9000) .. string.sub(item, -9000), '"body"', 1, true)
        and redis.call('LLEN', KEYS[1]) or 0
"""
# the lists of a queue's tasks with a priority
_PRIORITIES = ("", "\x06\x163", "\x06\x166", "\x06\x169")


@dataclass(frozen=True, kw_only=True)
class QueueStatus:
    """The queues at one moment."""

    # why Redis cannot be used, as a sentence; None if it answered, and takes writes
    problem: str | None = None
    # waiting tasks by queue
    queues: dict[str, int]
    # the workers that answered, by queue; None if they were not asked
    workers: dict[str, list[str]] | None = None
    # tasks by the name of a list that no worker reads; empty if the workers were not asked
    unread: dict[str, int] = field(default_factory=dict)
    # seconds since the last sweep; None: none within a day
    swept_seconds_ago: float | None = None
    # how long the oldest payload task has waited
    accept_seconds: float = 0.0


def look(settings: Settings, *, workers: bool) -> QueueStatus:
    """Ask Redis for the lengths of the queues and, with `workers`, all workers for their queues (up to 4 s)."""
    problem: str | None = None
    try:
        probe(settings)
    except (QueueUnavailable, WritesRefused, SettingsError) as error:
        problem = str(error)
        if isinstance(error, QueueUnavailable) or settings.redis_url is None:
            return QueueStatus(problem=problem, queues={})
    # asking the workers writes to Redis
    workers = workers and problem is None
    serving: dict[str, list[str]] | None = None
    try:
        with closing(make_app(settings)) as app:
            lengths = {name: length(app, queue.full_name) for name, queue in QUEUES.items()}
            swept = seconds_since_sweep(app)
            waited = oldest_payload_seconds(app)
            answers = _queues_of_workers(app) if workers else {}
            served = {worker: {queue["name"] for queue in queues} for worker, queues in answers.items()}
            ours = {queue.full_name for queue in QUEUES.values()}
            unread = _unread(settings, ours.union(*served.values())) if workers else {}
    except (OperationalError, RedisError) as error:
        return QueueStatus(problem=problem or f"Redis does not do what is asked: {error}", queues={})
    if workers:
        serving = {
            name: sorted(worker for worker, names in served.items() if queue.full_name in names)
            for name, queue in QUEUES.items()
        }
    return QueueStatus(
        problem=problem,
        queues=lengths,
        workers=serving,
        unread=unread,
        swept_seconds_ago=swept,
        accept_seconds=waited if lengths[ACCEPT.name] else 0.0,
    )


def facts(settings: Settings, queues: QueueStatus) -> Broker:
    """Return the doctor's facts about these queues, whose workers were asked, and about Redis' settings."""
    if queues.problem is not None:
        return Broker(problem=queues.problem)
    configured: dict[str, str] = {}
    memory: dict[str, int] = {}
    server: dict[str, str] = {}
    try:
        with client_of(settings) as client, suppress(ResponseError):
            # hosted servers often refuse INFO or CONFIG; one setting at a time, as Redis before 7 takes no more
            server = client.info("server")
            memory = client.info("memory")
            configured = client.config_get("appendonly") | client.config_get("maxmemory-policy")
    except RedisError as error:
        return Broker(problem=f"Redis does not answer: {error}")
    serving = queues.workers or {}
    name = "valkey" if "valkey_version" in server else "redis"
    return Broker(
        release=f"{name.capitalize()} {server[f'{name}_version']}" if server else None,
        appendonly=configured.get("appendonly"),
        policy=configured.get("maxmemory-policy"),
        used_bytes=int(memory.get("used_memory", 0)),
        accept_seconds=queues.accept_seconds,
        max_bytes=int(memory.get("maxmemory", 0)),
        unread=queues.unread,
        unserved={name: length for name, length in queues.queues.items() if not serving.get(name)},
    )


def _queues_of_workers(app: Celery) -> dict[str, list[dict[str, str]]]:
    answers: dict[str, list[dict[str, str]]] = {}
    # A pooled connection may still hold an error from when Redis became a replica, and fail with it now. Closing one
    # waits for its last poll, by default a second.
    with app.connection_for_write(transport_options={"polling_interval": POLL_SECONDS}) as connection:
        for seconds in ANSWER_SECONDS:
            answers |= app.control.inspect(timeout=seconds, connection=connection).active_queues() or {}
            served = {queue["name"] for queues in answers.values() for queue in queues}
            if served >= {queue.full_name for queue in QUEUES.values()}:
                break
    return answers


def _unread(settings: Settings, read: Set[str]) -> dict[str, int]:
    """Count the tasks of lists that nobody reads, as `celery`, where those go that a sender names no queue for."""
    tasks, keys, cursor = Counter[str](), {"celery"}, 0
    with client_of(settings) as client:
        for _ in range(MAX_SCANS):
            cursor, found = client.scan(cursor, count=1000, _type="list")
            keys.update(found)
            if not cursor:
                break
        for key in sorted(keys)[:MAX_LISTS]:
            name = key.partition("\x06")[0]
            # there are lists of answers to `inspect`, too
            if name not in read and not name.endswith(".pidbox"):
                tasks[name] += client.eval(_TASKS, 1, key)
    return {name: count for name, count in sorted(tasks.items()) if count}


def move_to_accept(settings: Settings, source: str) -> int:
    """Move the tasks of a list to the queue of payloads, the oldest first; return how many."""
    with client_of(settings) as client:
        return sum(
            client.rpoplpush(key, ACCEPT.full_name) is not None
            for key in (source + priority for priority in _PRIORITIES)
            for _ in range(client.llen(key))
        )
