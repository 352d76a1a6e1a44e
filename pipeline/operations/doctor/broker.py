"""Diagnose Redis, its queues and their workers."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from pipeline.operations.doctor.finding import Finding

FULL = 0.9


@dataclass(frozen=True, kw_only=True)
class Broker:
    """Redis and the queues."""

    problem: str | None = None
    # none: Redis does not say
    appendonly: str | None = None
    policy: str | None = None
    used_bytes: int = 0
    # 0: no limit
    max_bytes: int = 0
    # tasks that wait, by queue, where no worker answers
    unserved: Mapping[str, int] | None = None


def findings(broker: Broker) -> Iterator[Finding]:
    """Yield what is wrong with Redis, its queues and who serves them."""
    if broker.problem is not None:
        yield Finding(
            check="redis",
            severity="error",
            what=f"Redis does not answer: {broker.problem}",
            why="Messages are accepted over HTTP, and nothing is made of them until it is back.",
            remedy="Start Redis, or correct BACKSCROLL_REDIS_URL.",
        )
        return
    if broker.appendonly == "no":
        yield Finding(
            check="redis",
            severity="warning",
            what="Redis keeps no append-only file",
            why="Payload tasks of bots that enqueue by themselves are lost when it restarts.",
            remedy="CONFIG SET appendonly yes, and the same in redis.conf.",
        )
    if broker.policy not in {None, "noeviction"}:
        yield Finding(
            check="redis",
            severity="error",
            what=f"Redis evicts keys when it is full ({broker.policy})",
            why="It would drop whole queues, with the messages in them.",
            remedy="CONFIG SET maxmemory-policy noeviction, and the same in redis.conf.",
        )
    if broker.max_bytes and broker.used_bytes > FULL * broker.max_bytes:
        yield Finding(
            check="redis",
            severity="error",
            what=f"Redis is {broker.used_bytes / broker.max_bytes:.0%} full",
            why="When it is full no task can be queued.",
            remedy="Raise maxmemory, and see whether a queue has no worker.",
        )
    for queue, tasks in (broker.unserved or {}).items():
        yield Finding(
            check="worker",
            severity="error" if tasks else "warning",
            what=f"no worker serves the queue {queue}, where {tasks:,} tasks wait",
            why="Its work is not done.",
            remedy=f"Start one: `backscroll worker {queue}`. One that is at work on a long task may not have answered.",
        )
