"""SQL of the daily counters: what happened, for `status` and for monitoring."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

from sqlalchemy import Connection, text

_COUNTED = "counted"
IN_SPACE = "embedding_writes:"
"""Prefix of the counters of writes into an embedding space; the space's name follows."""
SLOT = "mod(pg_backend_pid(), 16)"
"""SQL of a slot for each connection, so that two of them seldom wait for each other's commit."""

_COLLECTED = text(f"""
    INSERT INTO daily_counters (tenant_id, day, name, slot, value)
    SELECT tenant, (now() AT TIME ZONE 'UTC')::date, name, {SLOT}, value
    FROM unnest(CAST(:tenants AS text[]), CAST(:names AS text[]), CAST(:values AS float8[]))
        AS given (tenant, name, value)
    ORDER BY tenant, name
    ON CONFLICT (tenant_id, day, name, slot) DO UPDATE SET value = daily_counters.value + excluded.value
""")


def adding(after: str) -> str:
    """Return SQL that adds `:values` to the figures `:names` of `:tenant`, as the last part of a statement.

    `after` are the parts whose rows it must follow, and which say whether it adds anything.
    """
    return f"""
        INSERT INTO daily_counters (tenant_id, day, name, slot, value)
        SELECT :tenant, (now() AT TIME ZONE 'UTC')::date, name, {SLOT}, value
        FROM {after}, unnest(CAST(:names AS text[]), CAST(:values AS float8[])) AS given (name, value)
        ORDER BY name
        ON CONFLICT (tenant_id, day, name, slot) DO UPDATE SET value = daily_counters.value + excluded.value
    """


_TOTALS = text("""
    SELECT name, sum(value) FROM daily_counters
    WHERE day > (now() AT TIME ZONE 'UTC')::date - CAST(:days AS integer) GROUP BY name ORDER BY name
""")
# Midnight comes while transactions of the day before still add to it.
_SPAN_SECONDS = 3600
_BY_DAY = text("""
    SELECT day::text, name, sum(value) AS total,
        coalesce(max(value) FILTER (WHERE day = (now() AT TIME ZONE 'UTC')::date), 0) AS most_today
    FROM (SELECT tenant_id, day, name, sum(value) AS value FROM daily_counters
        WHERE day >= ((now() - make_interval(secs => :seconds)) AT TIME ZONE 'UTC')::date
        GROUP BY tenant_id, day, name) AS of_tenant
    GROUP BY day, name
""")


class DayFigure(NamedTuple):
    """A figure of one day (UTC) over all tenants."""

    day: str
    name: str
    total: float
    # of the tenant that has most of it today; 0 of another day
    most_today: float


def add(connection: Connection, tenant_id: str, values: Mapping[str, float]) -> None:
    """Add to today's figures of a tenant; a transaction of `Database.tenant` writes them as it ends."""
    counted: dict[tuple[str, str], float] = connection.info[_COUNTED]
    for name, value in values.items():
        counted[tenant_id, name] = counted.get((tenant_id, name), 0.0) + float(value)


@contextmanager
def collected(connection: Connection) -> Iterator[None]:
    """Write at the end the figures added during the block.

    Rows of figures are locked by one last statement, in the order of their names, and until the commit that follows:
    two transactions that took them one by one, or held them while they wait for something else, would deadlock.
    """
    counted: dict[tuple[str, str], float] = {}
    # the same object even if the connection is lost meanwhile
    info = connection.info
    info[_COUNTED] = counted
    try:
        yield
    finally:
        del info[_COUNTED]
    figures = sorted((*key, value) for key, value in counted.items() if value)
    # after a rollback nothing counts
    if not figures or not connection.in_transaction():
        return
    tenants, names, values = zip(*figures, strict=True)
    connection.execute(_COLLECTED, {"tenants": list(tenants), "names": list(names), "values": list(values)})


def totals(connection: Connection, days: int) -> dict[str, float]:
    """Return the figures of the last `days` days, added up by name, over what the role may see."""
    return {str(row[0]): float(row[1]) for row in connection.execute(_TOTALS, {"days": days})}


def by_day(connection: Connection, seconds: float) -> list[DayFigure]:
    """Return the figures of the days to which something may have been added in the last `seconds` (maintenance)."""
    rows = connection.execute(_BY_DAY, {"seconds": seconds + _SPAN_SECONDS})
    return [DayFigure(*row) for row in rows]
