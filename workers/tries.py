"""Counts how often a payload was begun, so that one that ends its process each time is given up in the end.

A payload is not owed in the database before it is accepted: its tries are counted where it lies, in Redis. Only
what a process died of counts: waiting for Postgres does not.
"""

import structlog
from celery import Celery
from kombu.exceptions import OperationalError
from redis.exceptions import RedisError

log = structlog.get_logger(__name__)

SECONDS_KEPT = 86_400
"""For how long after the last try; a payload comes again within minutes."""


def begin(app: Celery, task_id: str) -> int:
    """Count a try, and say which one it is, from 1; 1 as well where Redis cannot count."""
    try:
        with (
            app.pool.acquire(block=True) as connection,
            connection.default_channel.client.pipeline() as redis,
        ):
            redis.incr(_key(task_id))
            redis.expire(_key(task_id), SECONDS_KEPT)
            return int(redis.execute()[0])
    except (RedisError, OperationalError, OSError) as error:
        # a full or absent Redis must not keep messages waiting that Postgres would take
        log.warning("tries_not_counted", error=str(error))
        return 1


def end(app: Celery, task_id: str) -> None:
    """Forget the tries: this one left its process alive."""
    try:
        with app.pool.acquire(block=True) as connection:
            connection.default_channel.client.delete(_key(task_id))
    except (RedisError, OperationalError, OSError) as error:
        log.warning("tries_not_counted", error=str(error))


def _key(task_id: str) -> str:
    return f"backscroll.tries:{task_id}"
