"""Whether a deployment has caught up: nothing due, leased or waiting, in the database and in the queue of payloads."""

import contextlib
import json
from functools import partial
from typing import Any

import psycopg
from redis.exceptions import RedisError

from ops.dev.deployed.deployment import Deployment
from ops.dev.observe import count, wait
from workers.queues import ACCEPT

_TO_DO = """
    SELECT (SELECT count(*) FROM jobs WHERE due_at IS NOT NULL OR claimed IS NOT NULL)
        + (SELECT count(*) FROM arrivals)
        + (SELECT count(*) FROM conversation_sessions WHERE status IN ('open', 'closed'))
"""
# This moment by the database's clock, and the number of the last claim before it.
_MARK = "SELECT now(), (SELECT last_value FROM job_token)"
# Not done since then.
_LEFT = (
    "SELECT count(*) FROM jobs WHERE (due_at IS NOT NULL OR claimed IS NOT NULL) AND pending_since < %(at)s"
)
_FREE = "due_at IS NOT NULL AND claimed IS NULL"
_WAITING = f"SELECT kind, count(*) FROM jobs WHERE {_FREE} GROUP BY kind"  # noqa: S608 - our own words
# Still held by the one who held it then, or of a kind of which nothing was claimed since: every claim has its own
# number, and where the row went when it was done, fewer wait.
_NOT_TAKEN_UP = f"""
    WITH before AS (
        SELECT kind, claimed, due_at FROM jobs WHERE (due_at IS NOT NULL OR claimed IS NOT NULL)
            AND pending_since < %(at)s AND coalesce(token, 0) <= %(token)s
    )
    SELECT count(*) FROM before WHERE claimed IS NOT NULL
        OR NOT EXISTS (SELECT 1 FROM jobs later WHERE later.kind = before.kind AND later.token > %(token)s)
        AND (SELECT count(*) FROM before other WHERE other.kind = before.kind AND {_FREE})
            >= coalesce((%(waiting)s::jsonb ->> kind)::bigint, 0)
"""  # noqa: S608


def payloads_waiting(deployment: Deployment) -> int:
    """Count payload tasks that are queued, or taken and not acknowledged."""
    with deployment.redis_client() as client:
        taken = sum(ACCEPT.full_name.encode() in value for value in client.hvals("unacked"))
        return int(client.llen(ACCEPT.full_name)) + taken


def left_to_do(deployment: Deployment) -> int:
    """Count due jobs, arrivals, sessions without an end, and payloads; -1 while the servers do not answer."""
    with contextlib.suppress(psycopg.OperationalError, RedisError), deployment.connect() as connection:
        return count(connection, _TO_DO) + payloads_waiting(deployment)
    return -1


def wait_recovered(deployment: Deployment, seconds: float) -> float | None:
    """Wait until all that is due now is taken up, and then until it is done; return the seconds until the former.

    Taken up: every kind that was due is being claimed again, and all that dead processes held, too. None if it is not
    taken up within `seconds`, or if none of it is done for as long.
    """
    with deployment.connect() as connection:
        ((at, token),) = connection.execute(_MARK).fetchall()
        waiting: dict[str, int] = dict(connection.execute(_WAITING).fetchall())
        mark = {"at": at, "token": token, "waiting": json.dumps(waiting)}
        taken = wait(lambda: not count(connection, _NOT_TAKEN_UP, mark), seconds, meanwhile=deployment.tend)
        while left := count(connection, _LEFT, mark):
            # how long all of it takes depends on how much was sent
            if wait(partial(_has_fallen, connection, mark, left), seconds, meanwhile=deployment.tend) is None:
                return None
    return taken


def _has_fallen(connection: psycopg.Connection, mark: dict[str, Any], left: int) -> bool:
    return count(connection, _LEFT, mark) < left
