"""SQL of the daily counters: what happened, for `status` and for monitoring."""

import itertools
import os
import threading
from collections.abc import Mapping

from sqlalchemy import Connection

from pipeline.store.sql import text

SLOTS = 16


class _Thread(threading.local):
    """The number of a thread, in the order in which those of this process come to count."""

    def __init__(self) -> None:
        self.number = next(_numbers)


_numbers = itertools.count()
_thread = _Thread()


def slot() -> int:
    """One slot for each thread of each process, so that two of them seldom wait for each other's commit."""
    # threads follow one another, and so do the numbers of processes that were started together
    return (os.getpid() * 5 + _thread.number) % SLOTS


def add(connection: Connection, tenant_id: str, values: Mapping[str, float]) -> None:
    """Add to today's figures of a tenant, near the end of a transaction: the rows stay locked until then."""
    given = {name: float(value) for name, value in values.items() if value}
    if not given:
        return
    connection.execute(
        text("""
            INSERT INTO daily_counters (tenant_id, day, name, slot, value)
            SELECT :tenant, (now() AT TIME ZONE 'UTC')::date, name, :slot, value
            FROM unnest(CAST(:names AS text[]), CAST(:values AS float8[])) AS given (name, value) ORDER BY name
            ON CONFLICT (tenant_id, day, name, slot) DO UPDATE SET value = daily_counters.value + excluded.value
        """),
        {
            "tenant": tenant_id,
            "slot": slot(),
            "names": list(given),
            "values": list(given.values()),
        },
    )


def totals(connection: Connection, days: int) -> dict[str, float]:
    """The figures of the last `days` days, added up by name, over what the role may see."""
    rows = connection.execute(
        text("""
            SELECT name, sum(value) FROM daily_counters
            WHERE day > (now() AT TIME ZONE 'UTC')::date - CAST(:days AS integer) GROUP BY name ORDER BY name
        """),
        {"days": days},
    )
    return {str(row[0]): float(row[1]) for row in rows}
