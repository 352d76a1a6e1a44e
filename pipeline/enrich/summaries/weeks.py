"""Compute the weeks of a chat, in its time zone, and enqueue their rollups."""

from datetime import date, datetime, time, timedelta
from zoneinfo import ZoneInfo

from sqlalchemy import Connection

from pipeline.store.chats import chats
from pipeline.store.jobs import jobs
from pipeline.store.sessions.rollups import Week
from schemas.kinds import ROLLUP

SETTLE_SECONDS = 600.0
"""How long a rollup waits for summaries of the week's other sessions, so that it is not redone for each."""


def enqueue(
    connection: Connection,
    tenant_id: str,
    chat_id: str,
    started_at: datetime,
    zone: ZoneInfo,
    *,
    settle_seconds: float = SETTLE_SECONDS,
    priority: int = jobs.LIVE,
    trace_id: str | None = None,
) -> None:
    """Enqueue the rollup of the week in which a summarized session began, for when that week is over."""
    week = Week(chat_id, monday_of(started_at, zone))
    _, until = bounds(week.monday, zone)
    seconds_left = (until - chats.database_now(connection)).total_seconds()
    jobs.enqueue(
        connection,
        tenant_id,
        ROLLUP.name,
        [week.key],
        lane=chat_id,
        priority=priority,
        delay_seconds=max(seconds_left, 0.0) + settle_seconds,
        trace_id=trace_id,
    )


def monday_of(at: datetime, zone: ZoneInfo) -> date:
    """Return the Monday of the week of a time, in a time zone.

    >>> from datetime import UTC
    >>> monday_of(datetime(2026, 3, 8, 23, 30, tzinfo=UTC), ZoneInfo("Europe/Berlin"))
    datetime.date(2026, 3, 9)
    """
    day = at.astimezone(zone).date()
    return day - timedelta(days=day.weekday())


def bounds(monday: date, zone: ZoneInfo) -> tuple[datetime, datetime]:
    """Return when a week begins and when the next one does."""
    start = datetime.combine(monday, time(), zone)
    return start, datetime.combine(monday + timedelta(days=7), time(), zone)
