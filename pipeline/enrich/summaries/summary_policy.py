"""Decide which sessions and weeks are summarized, when again, and which by a language model."""

from dataclasses import dataclass
from datetime import date, datetime, time, timedelta, tzinfo
from typing import Any

from sqlalchemy import Connection, Row

from pipeline.enrich.summaries.summarizers import count_left
from pipeline.store.chats import chats
from pipeline.store.connections import transactions
from pipeline.store.jobs import jobs
from pipeline.store.operations import counters
from pipeline.store.sessions import session_rows
from pipeline.store.sessions.rollups import Week
from schemas.kinds import ROLLUP
from schemas.sessions import EXTRACTIVE, is_named

QUIET_TIME, QUIET_SESSIONS = timedelta(days=7), 7
"""A chat with fewer sessions in this time, less than one a day, is quiet."""


@dataclass(frozen=True, kw_only=True)
class Rollout:
    """Which sessions a language model summarizes; the others get extractive summaries."""

    # only those of these chats; empty: all chats
    chats: frozenset[str] = frozenset()
    # in a quiet chat only every n-th session, as this says
    every: int = 1


@dataclass(frozen=True, kw_only=True)
class SummaryPolicy:
    """Which sessions are summarized, and when again."""

    # a closed session with fewer messages is skipped
    min_messages: int
    # a session whose summary has its revision and this version is done
    version: int
    # growth, in messages or tokens, after which an open session is summarized again; the last is for sessions that an
    # agent named
    rolling_messages: int = 1
    rolling_tokens: int = 1
    named_rolling_messages: int = 1
    # how long the summary of a named open session stays a memory, too, after it was last shown
    session_lifetime: timedelta | None = None
    rollout: Rollout = Rollout()
    # renewed before each call to a model, so it must be longer than one
    lease_seconds: float = 120
    # whether a session is extracted when the day's budget is spent, instead of waiting
    extracts_when_spent: bool = False
    # delay of a week's rollup after the week and the session are over; None: never
    rollup_after_seconds: float | None = None


def is_for_model(connection: Connection, row: Row[Any], rollout: Rollout) -> bool:
    """Tell whether a language model summarizes a session."""
    if rollout.chats and row.chat_id not in rollout.chats:
        return False
    if rollout.every == 1:
        return True
    before, lately = session_rows.count_before(connection, row.chat_id, row.started_at, row.id, QUIET_TIME)
    return lately >= QUIET_SESSIONS or before % rollout.every == 0


def is_due(connection: Connection, tenant_id: str, row: Row[Any], policy: SummaryPolicy, model: str) -> bool:
    """Tell whether a session must be summarized now; update the status of one that needs no summary."""
    if row.status != "open" and row.message_count < policy.min_messages:
        session_rows.set_status(connection, row.id, row.revision, "skipped")
        transactions.log_once_committed(
            connection,
            "session_skipped",
            tenant=tenant_id,
            session_id=row.id,
            chat_id=row.chat_id,
            reason="too short",
        )
        counters.add(connection, tenant_id, {"session_summary_skipped_small": 1})
        return False
    is_current = (row.summary_revision, row.summary_version) == (row.revision, policy.version)
    # a session that retention has pruned cannot get a better summary
    if is_current and (
        row.summary_model != EXTRACTIVE
        or model == EXTRACTIVE
        or count_left(connection, row) < row.message_count
    ):
        session_rows.set_status(connection, row.id, row.revision, "summarized")
        return False
    if row.status != "open" and row.summary_text and not count_left(connection, row):
        session_rows.keep_summary(connection, row.id, row.revision, policy.version)
        return False
    enough = policy.named_rolling_messages if is_named(row.session_key) else policy.rolling_messages
    is_outdated = row.summary_text is not None and row.summary_revision is None
    return bool(
        row.status != "open"
        or is_outdated
        or row.message_count - (row.summary_message_count or 0) >= enough
        or row.token_count - (row.summary_token_count or 0) >= policy.rolling_tokens
    )


SETTLE_SECONDS = 600.0
"""How long a rollup waits for summaries of the week's other sessions, so that it is not redone for each."""


def enqueue_rollups(
    connection: Connection,
    tenant_id: str,
    chat_id: str,
    started_at: datetime,
    zone: tzinfo,
    *,
    settle_seconds: float = SETTLE_SECONDS,
    priority: int = jobs.LIVE,
    trace_id: str | None = None,
) -> None:
    """Enqueue the rollup of the week in which a summarized session began, for when that week is over."""
    week = Week(chat_id, monday_of(started_at, zone))
    _, until = week_bounds(week.monday, zone)
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


def monday_of(at: datetime, zone: tzinfo) -> date:
    """Return the Monday of the week of a time, in a time zone.

    >>> from datetime import UTC
    >>> from zoneinfo import ZoneInfo
    >>> monday_of(datetime(2026, 3, 8, 23, 30, tzinfo=UTC), ZoneInfo("Europe/Berlin"))
    datetime.date(2026, 3, 9)
    """
    day = at.astimezone(zone).date()
    return day - timedelta(days=day.weekday())


def week_bounds(monday: date, zone: tzinfo) -> tuple[datetime, datetime]:
    """Return when a week begins and when the next one does."""
    start = datetime.combine(monday, time(), zone)
    return start, datetime.combine(monday + timedelta(days=7), time(), zone)
