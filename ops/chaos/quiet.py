"""Whether a cast has caught up: nothing owed, leased or waiting, in the database and in the queue of payloads."""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import psycopg

from ops.chaos.cast import Cast
from workers.queues import ACCEPT

_OWED = """
    SELECT (SELECT count(*) FROM work WHERE due_at IS NOT NULL OR claimed IS NOT NULL)
        + (SELECT count(*) FROM arrivals)
        + (SELECT count(*) FROM conversation_sessions WHERE status IN ('open', 'closed'))
"""
_MARK = "SELECT now(), (SELECT last_value FROM work_token)"
# Not done since then.
_LEFT = "SELECT count(*) FROM work WHERE (due_at IS NOT NULL OR claimed IS NOT NULL) AND owed_since < %s"
_FREE = "due_at IS NOT NULL AND claimed IS NULL"
_WAITING = f"SELECT kind, count(*) FROM work WHERE {_FREE} GROUP BY kind"  # noqa: S608 - our own words
# Still held by who held it then, or of a kind of which nothing was claimed since: every claim has its own number,
# and where the row went when it was done, fewer wait.
_LEFT_LYING = f"""
    WITH lying AS (
        SELECT kind, claimed, due_at FROM work WHERE (due_at IS NOT NULL OR claimed IS NOT NULL)
            AND owed_since < %(at)s AND coalesce(token, 0) <= %(token)s
    )
    SELECT count(*) FROM lying WHERE claimed IS NOT NULL
        OR NOT EXISTS (SELECT 1 FROM work later WHERE later.kind = lying.kind AND later.token > %(token)s)
        AND (SELECT count(*) FROM lying other WHERE other.kind = lying.kind AND {_FREE})
            >= coalesce((%(waiting)s::jsonb ->> kind)::bigint, 0)
"""  # noqa: S608


@dataclass(frozen=True, kw_only=True)
class Mark:
    """A moment by the database's clock, and the number of the last claim before it."""

    at: datetime
    token: int
    # rows by kind that were owed and claimed by nobody
    waiting: Mapping[str, int]


@dataclass(frozen=True, kw_only=True)
class Recovery:
    """Seconds from a mark."""

    # until every kind that was owed was being claimed again, and all that was in the hands of dead processes, too
    taken: float
    # until all that was owed then was done, which is a matter of how much that was
    done: float


def mark(cast: Cast) -> Mark:
    """This moment."""
    with cast.connect() as connection:
        row = connection.execute(_MARK).fetchone()
        waiting = connection.execute(_WAITING).fetchall()
    assert row is not None  # noqa: S101 - one row by the statement
    return Mark(at=row[0], token=row[1], waiting=dict(waiting))


def owed(cast: Cast) -> int:
    """How much is left to be done: work, arrivals, sessions without an end."""
    with cast.connect() as connection:
        return _count(connection, _OWED)


def payloads_waiting(cast: Cast) -> int:
    """Payload tasks that are queued, or taken and not acknowledged."""
    with cast.redis_client() as client:
        taken = sum(ACCEPT.full_name.encode() in value for value in client.hvals("unacked"))
        return int(client.llen(ACCEPT.full_name)) + taken


def wait_ready(cast: Cast, seconds: float) -> float | None:
    """How long it took from now until all processes had come up; None: longer than `seconds`."""
    return _until(cast, cast.is_ready, seconds)


def wait_recovered(cast: Cast, mark: Mark, seconds: float) -> Recovery | None:
    """How long it took from now to recover what was owed at the mark; None: longer than `seconds`."""
    began = time.monotonic()
    with cast.connect() as connection:
        given = {"at": mark.at, "token": mark.token, "waiting": json.dumps(mark.waiting)}
        if _until(cast, lambda: _count(connection, _LEFT_LYING, given) == 0, seconds) is None:
            return None
        taken = time.monotonic() - began
        if _until(cast, lambda: _count(connection, _LEFT, [mark.at]) == 0, seconds) is None:
            return None
    return Recovery(taken=taken, done=time.monotonic() - began)


def _until(cast: Cast, condition: Callable[[], bool], seconds: float) -> float | None:
    began = time.monotonic()
    while not condition():
        if time.monotonic() - began > seconds:
            return None
        cast.tend()
        time.sleep(0.05)
    return time.monotonic() - began


def _count(
    connection: psycopg.Connection, statement: str, given: Sequence[object] | Mapping[str, object] = ()
) -> int:
    row = connection.execute(statement, given).fetchone()
    assert row is not None  # noqa: S101 - one row by the statement
    return int(row[0])
