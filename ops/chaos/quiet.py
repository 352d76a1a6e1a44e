"""Whether a cast has caught up: nothing owed, leased or waiting, in the database and in the queue of payloads."""

import time
from datetime import datetime

import psycopg

from ops.chaos.cast import Cast
from workers.queues import ACCEPT

_OWED = """
    SELECT (SELECT count(*) FROM work WHERE due_at IS NOT NULL OR claimed IS NOT NULL)
        + (SELECT count(*) FROM arrivals)
        + (SELECT count(*) FROM conversation_sessions WHERE status IN ('open', 'closed'))
"""
_OWED_SINCE_BEFORE = """
    SELECT count(*) FROM work WHERE (due_at IS NOT NULL OR claimed IS NOT NULL) AND owed_since < %s
"""


def now(cast: Cast) -> datetime:
    """The database's clock."""
    with cast.connect() as connection:
        row = connection.execute("SELECT now()").fetchone()
    assert row is not None  # noqa: S101 - one row by the statement
    moment: datetime = row[0]
    return moment


def owed_from_before(cast: Cast, moment: datetime) -> int:
    """How many rows of work have been owed since before that moment."""
    with cast.connect() as connection:
        return _count(connection, _OWED_SINCE_BEFORE, moment)


def owed(cast: Cast) -> int:
    """How much is left to be done: work, arrivals, sessions without an end."""
    with cast.connect() as connection:
        return _count(connection, _OWED)


def payloads_waiting(cast: Cast) -> int:
    """Payload tasks that are queued, or taken and not acknowledged."""
    with cast.redis_client() as client:
        taken = sum(ACCEPT.full_name.encode() in value for value in client.hvals("unacked"))
        return int(client.llen(ACCEPT.full_name)) + taken


def wait_recovered(cast: Cast, moment: datetime, seconds: float) -> float | None:
    """How long it took from now until what was owed at that moment is done; None: longer than `seconds`."""
    began = time.monotonic()
    while owed_from_before(cast, moment):
        if time.monotonic() - began > seconds:
            return None
        cast.tend()
        time.sleep(0.05)
    return time.monotonic() - began


def _count(connection: psycopg.Connection, statement: str, *values: object) -> int:
    row = connection.execute(statement, values).fetchone()
    assert row is not None  # noqa: S101 - one row by the statement
    return int(row[0])
