"""Derive data again from stored rows: windows over a keyset cursor, resumable after a kill at any point.

A backfill enqueues jobs for the workers. Its cursor is its progress; it is complete once the database has no pending
job of it, and no row lacks a vector that it should have.
"""

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import structlog
from sqlalchemy import Connection

from pipeline.jobs import runner
from pipeline.jobs.failures import reason_of
from pipeline.operations.backfill_kinds import KINDS, Current
from pipeline.store.chats import chats
from pipeline.store.connections.database import Database
from pipeline.store.connections.transactions import translating
from pipeline.store.jobs import backfill_rows, jobs
from pipeline.store.jobs.jobs import Claim
from schemas.backfills import Backfill, BackfillRequest
from schemas.errors import InvalidInput, NotFound, Retryable

log = structlog.get_logger(__name__)

# The pause before a backfill that has enqueued everything checks again whether it is done.
RECHECK_SECONDS = 2.0
# Length of a turn that sessionizes chats, each in its own transaction: prune and forget wait for it.
TURN_SECONDS = 10.0
# A delayed window is made up for by at most this, as after waiting for a sweep, to keep the mean rate.
MADE_UP_SECONDS = 10.0

# Passes of a vector backfill at most: it begins again if rows still lack a vector at its end.
PASSES = 3
ROWS_READ = 1000
"""Rows whose texts are read at once to count them."""
COMPARED = 1000
"""Number of the newest backfills among which one that does the same is looked for."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The rows that a backfill would read, and those that it would enqueue."""

    rows: int
    missing: int


def plan(database: Database, tenant_id: str, request: BackfillRequest, current: Current) -> Plan:
    """Estimate a request without doing anything."""
    with database.tenant(tenant_id) as connection:
        planned = _plan(connection, request, current)
    if not KINDS[request.kind].reads_texts:
        return planned
    return replace(planned, missing=count_missing(database, tenant_id, request, current))


def count_missing(
    database: Database, tenant_id: str, request: BackfillRequest, current: Current, most: int | None = None
) -> int:
    """Count the rows that lack something by their texts, of at most the first `most` of each table, in windows."""
    kind, count = KINDS[request.kind], 0
    for source in kind.sources:
        after, left = None, sys.maxsize if most is None else most
        while left > 0:
            with database.tenant(tenant_id) as connection:
                parameters = _parameters(connection, request, current)
                rows = backfill_rows.window(connection, source, after, min(left, ROWS_READ), **parameters)
            if not rows:
                break
            count += sum(map(kind.is_missing, rows))
            after, left = str(rows[-1].position), left - len(rows)
    return count


def count_tokens(connection: Connection, request: BackfillRequest, current: Current) -> backfill_rows.Tokens:
    """Count the rows that a request would summarize or embed, and the tokens of their texts."""
    parameters = _parameters(connection, request, current)
    counted = [
        backfill_rows.count_tokens(
            connection, source, missing_only=request.missing_only, limit=request.limit, **parameters
        )
        for source in KINDS[request.kind].sources
    ]
    return backfill_rows.Tokens(
        rows=sum(count.rows for count in counted), tokens=sum(count.tokens for count in counted)
    )


def start(
    database: Database,
    tenant_id: str,
    request: BackfillRequest,
    current: Current,
    *,
    by: str = "cli",
    again: bool = False,
) -> Backfill:
    """Store the backfill and enqueue its job; returns at once. One that does the same already is returned instead."""
    with database.tenant(tenant_id) as connection:
        backfill_rows.lock_starts(connection, tenant_id)
        for other in [] if again else backfill_rows.listing(connection, COMPARED):
            if other.state in {"running", "paused"} and other.request.does_as(request):
                return other.model_copy(update={"was_running": True})
        planned = _plan(connection, request, current)
        total = planned.rows if request.limit is None else min(planned.rows, request.limit)
        chats.ensure_tenant(connection, tenant_id)
        made = backfill_rows.insert(connection, tenant_id, request, total, by)
        jobs.enqueue(connection, tenant_id, "backfill", [str(made.id)], priority=jobs.LATER)
    return made


def change_state(database: Database, tenant_id: str, backfill_id: int, wish: str) -> Backfill:
    """Set a backfill `paused`, `running` or `cancelled`. Raises `NotFound`, or `InvalidInput` if it has ended."""
    with database.tenant(tenant_id) as connection:
        backfill = backfill_rows.get(connection, backfill_id, lock=True)
        if backfill is None:
            raise NotFound(f"there is no backfill {backfill_id}: see `backscroll backfills list`")
        if backfill.state not in {"running", "paused", "failed"}:
            raise InvalidInput(
                f"backfill {backfill_id} is {backfill.state} and cannot be changed", field="state"
            )
        backfill_rows.set_state(connection, backfill_id, wish)
        if wish == "running":
            rest = {name: value for name, value in (backfill.cursor or {}).items() if name != "began"}
            backfill_rows.advance(connection, backfill_id, rest, 0, 0)
            jobs.enqueue(connection, tenant_id, "backfill", [str(backfill_id)], priority=jobs.LATER)
        return backfill.model_copy(update={"state": wish})


def backfiller(database: Database, current: Current) -> runner.Handler:
    """Make the handler of `backfill` jobs: each claim is one window of a backfill, or a turn of several."""

    def handle(tenant_id: str, claims: Sequence[Claim]) -> set[str]:
        follows: set[str] = set()
        for claim in claims:
            until = time.monotonic() + TURN_SECONDS
            going_on = True
            while going_on:
                going_on = time.monotonic() < until
                with database.tenant(tenant_id) as connection:
                    enqueued, going_on = _window(connection, tenant_id, claim, current, going_on=going_on)
                follows |= enqueued
        return follows

    return handle


def _window(
    connection: Connection, tenant_id: str, claim: Claim, current: Current, *, going_on: bool
) -> tuple[set[str], bool]:
    """Run the next window of a backfill; return `(kinds enqueued, whether to go on with this claim)`.

    With `going_on` a backfill that works `at_once` keeps its claim for the next window, which has its own transaction
    so that no chat's lock is held for another. Otherwise the claim is finished, and due again if rows are left.
    """
    # locked, so that a cancellation waits for this window and is not overwritten
    backfill = backfill_rows.get(connection, int(claim.key), lock=True)
    if backfill is None or backfill.state != "running":
        jobs.finish(connection, [claim])
        return set(), False
    request = backfill.request
    if off := current.switched_off(request.kind):
        why = f"it waits, as {off} is off"
        jobs.finish(connection, [claim], again_in=runner.SWITCHED_OFF_SECONDS, error=why)
        return set(), False
    kind, parameters = KINDS[request.kind], _parameters(connection, request, current)
    cursor = backfill.cursor or {"source": kind.sources[0], "after": None}
    if "began" not in cursor and (done := _done(connection, backfill)):
        # what was waited for before says nothing about the rate
        cursor |= {"began": [chats.database_now(connection).timestamp(), done]}
        backfill_rows.advance(connection, backfill.id, cursor, 0, 0)
    left = 1 if kind.at_once is not None and not kind.reads_texts else request.batch_size
    if request.limit is not None:
        left = min(left, request.limit - backfill.seen)
    rows = (
        backfill_rows.window(connection, cursor["source"], cursor["after"], left, **parameters)
        if cursor["source"] in kind.sources and left > 0
        else []
    )
    if not rows:
        return _end_source(connection, claim, backfill, cursor, parameters, exhausted=left <= 0), False
    everything = not request.missing_only and not cursor.get("passes")
    wanted = [
        n for n, row in enumerate(rows) if kind.is_missing(row) or (everything and not kind.reads_texts)
    ]
    if kind.at_once is not None and wanted:
        # up to the first one, so that no chat's lock is held for another
        rows, wanted = rows[: wanted[0] + 1], wanted[:1]
    chosen = {rows[n].key: rows[n].chat for n in wanted}
    given_up = cursor.get("given_up", 0)
    try:
        with translating(), connection.begin_nested():
            kind.redo(connection, tenant_id, backfill, chosen, current.rules)
    except Retryable:
        raise
    except Exception as error:  # noqa: BLE001 - whatever is wrong with this row, the later ones are still done
        given_up += len(chosen)
        reason = reason_of(error)
        log.warning("backfill_row_given_up", backfill=backfill.id, keys=sorted(chosen), error=reason)
    now = chats.database_now(connection).timestamp()
    next_at = _next_at(cursor.get("next_at"), now, len(chosen), request.rate_per_second)
    reached = cursor | {"after": str(rows[-1].position), "next_at": next_at, "raised_at": now + 0.001}
    reached |= {"given_up": given_up}
    backfill_rows.advance(connection, backfill.id, reached, len(rows), len(chosen))
    _log_progress(connection, backfill, len(rows))
    going_on = going_on and kind.at_once is not None and next_at <= now
    if going_on:
        jobs.keep(connection, claim)
    else:
        jobs.finish(connection, [claim], again_in=max(0.0, next_at - now))
    return {kind.follows} if chosen else set(), going_on


def _next_at(planned: float | None, now: float, rows: int, rate: float | None) -> float:
    """Return when the next window may be done, in seconds since the epoch.

    >>> _next_at(None, 1000.0, 100, 50.0), _next_at(997.0, 1000.0, 100, 50.0), _next_at(900.0, 1000.0, 100, 50.0)
    (1002.0, 999.0, 992.0)
    """
    if not rate:
        return now
    return max(now if planned is None else planned, now - MADE_UP_SECONDS) + rows / rate


def _end_source(
    connection: Connection,
    claim: Claim,
    backfill: Backfill,
    cursor: dict[str, Any],
    parameters: dict[str, Any],
    *,
    exhausted: bool,
) -> set[str]:
    """Continue with the next table, or check whether every job is done; return the kinds to wake."""
    kind = KINDS[backfill.request.kind]
    following = (
        kind.sources[kind.sources.index(cursor["source"]) + 1 :] if cursor["source"] in kind.sources else ()
    )
    ended = cursor.get("ended", {}) | {cursor["source"]: cursor["after"]}
    if following and not exhausted:
        turned = cursor | {"source": following[0], "after": None, "ended": ended}
        backfill_rows.advance(connection, backfill.id, turned, 0, 0)
        jobs.finish(connection, [claim], again_in=0)
        return set()
    moment = datetime.fromtimestamp(cursor.get("raised_at", 0), UTC)
    missing_only = backfill.request.missing_only
    left = [
        backfill_rows.outstanding(
            connection, source, upto, raised_until=moment, missing_only=missing_only, **parameters
        )
        for source, upto in ended.items()
        if upto is not None and kind.at_once is None
    ]
    if any(pending for pending, _ in left):
        jobs.finish(connection, [claim], again_in=RECHECK_SECONDS)
        return {kind.follows}
    passes = cursor.get("passes", 0) + 1
    lacking = sum(
        backfill_rows.unfinished(connection, source, upto, **parameters)
        for source, upto in ended.items()
        if upto is not None and kind.verified and not exhausted
    )
    if lacking and passes < PASSES:
        log.info("backfill_again", backfill=backfill.id, rows=lacking)
        again = cursor | {"source": kind.sources[0], "after": None, "ended": {}, "passes": passes}
        backfill_rows.advance(connection, backfill.id, again, 0, 0)
        jobs.finish(connection, [claim], again_in=0)
        return set()
    dead = sum(given_up for _, given_up in left) + lacking + cursor.get("given_up", 0)
    where = "the worker's log" if kind.at_once else "`backscroll status`"
    error = f"{dead} rows were given up: see {where}" if dead else None
    state = "failed" if dead else "completed"
    backfill_rows.set_state(connection, backfill.id, state, error=error)
    log.info(
        "backfill_ended", backfill=backfill.id, kind=backfill.request.kind, state=state, seen=backfill.seen
    )
    jobs.finish(connection, [claim])
    return set()


def _done(connection: Connection, backfill: Backfill) -> int:
    (counted,) = backfill_rows.with_pending(connection, [backfill])
    return counted.seen - counted.pending


def _plan(connection: Connection, request: BackfillRequest, current: Current) -> Plan:
    parameters = _parameters(connection, request, current)
    kind = KINDS[request.kind]
    counted = [backfill_rows.count(connection, source, **parameters) for source in kind.sources]
    if kind.reads_texts:
        counted = [(rows, 0) for rows, _ in counted]
    return Plan(
        rows=sum(rows for rows, _ in counted),
        missing=sum(missing for _, missing in counted),
    )


def progress(database: Database) -> list[str]:
    """Describe the progress of each tenant's running backfills, a line each (maintenance)."""
    with database.maintenance() as connection:
        running = backfill_rows.running(connection)
    return [f"backfill {backfill.id}: {backfill.request.kind} {backfill.progress()}" for backfill in running]


def _log_progress(connection: Connection, before: Backfill, rows: int) -> None:
    total = max(before.total, 1)
    if 100 * before.seen // total == 100 * (before.seen + rows) // total:
        return
    (now,) = backfill_rows.with_pending(connection, [before.model_copy(update={"seen": before.seen + rows})])
    eta = now.eta()
    log.info(
        "backfill_progress",
        backfill=now.id,
        kind=now.request.kind,
        seen=now.seen,
        total=now.total,
        pending=now.pending,
        eta_seconds=None if eta is None else round(eta.total_seconds()),
    )


def _parameters(connection: Connection, request: BackfillRequest, current: Current) -> dict[str, Any]:
    chosen = {"chat": request.chat_id, "since": request.since, "until": request.until}
    return chosen | KINDS[request.kind].parameters(connection, current)
