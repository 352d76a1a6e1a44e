"""Redo work over what is stored: windows over a keyset cursor, resumable after a kill at any point.

A backfill raises what is owed and leaves the work to the workers. Its cursor says how far it has come; that it
is complete is what the database says: nothing it asked for is owed any more.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection

from pipeline.ingest import session_ranges
from pipeline.ingest.policy import SessionPolicy
from pipeline.jobs import runner
from pipeline.jobs.runner import Claim
from pipeline.store import backfills, chats, jobs, spaces, summaries, tenants, vectors
from pipeline.store.database import Database
from pipeline.store.jobs import Job
from schemas.backfills import Backfill, BackfillRequest
from schemas.errors import InvalidInput, NotFound

# How soon a backfill that has raised everything looks whether it is done.
LOOK_AGAIN_SECONDS = 2.0
# A turn that cuts chats anew, each in a transaction of its own, goes on to the next one for so long: prune and forget
# wait for it meanwhile.
TURN_SECONDS = 10.0
# A window that waited for a sweep is made up for, so that the rate is kept in the mean; what waited longer is not.
MADE_UP_SECONDS = 10.0

_SOURCES = {
    "embed": ("embed_sessions", "embed_messages", "embed_memories"),
    "summarize": ("summarize",),
    "sessionize": ("sessionize",),
}


@dataclass(frozen=True, kw_only=True)
class Current:
    """The space and models that jobs use now."""

    rules: SessionPolicy
    summary_version: int
    min_messages: int


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What a backfill would look at, and what it would enqueue."""

    rows: int
    missing: int


def plan(database: Database, tenant_id: str, request: BackfillRequest, current: Current) -> Plan:
    """Estimate a request without doing anything."""
    with database.tenant(tenant_id) as connection:
        return _plan(connection, request, current)


def start(database: Database, tenant_id: str, request: BackfillRequest, current: Current) -> Backfill:
    """Store the backfill and enqueue its job; returns at once."""
    with database.tenant(tenant_id) as connection:
        planned = _plan(connection, request, current)
        total = planned.rows if request.limit is None else min(planned.rows, request.limit)
        tenants.ensure(connection, tenant_id)
        made = backfills.insert(connection, tenant_id, request, total)
        jobs.raise_wanted(connection, tenant_id, "backfill", [str(made.id)], priority=jobs.LATER)
    return made


def change_state(database: Database, tenant_id: str, backfill_id: int, wish: str) -> Backfill:
    """Pause, resume or cancel a backfill: `wish` is `paused`, `running` or `cancelled`.

    Raises `NotFound`, or `InvalidInput` for one that has ended.
    """
    with database.tenant(tenant_id) as connection:
        found = backfills.get(connection, backfill_id, lock=True)
        if found is None:
            raise NotFound(f"there is no backfill {backfill_id}: see `backscroll backfills list`")
        if found.state not in {"running", "paused", "failed"}:
            raise InvalidInput(
                f"backfill {backfill_id} is {found.state} and cannot be changed", field="state"
            )
        backfills.set_state(connection, backfill_id, wish)
        if wish == "running":
            jobs.raise_wanted(connection, tenant_id, "backfill", [str(backfill_id)], priority=jobs.LATER)
        return found.model_copy(update={"state": wish})


def backfiller(database: Database, current: Current) -> runner.Handler:
    """Make the handler of `backfill` jobs: each claim is a backfill that does one window."""

    def handle(tenant_id: str, claims: Sequence[Claim]) -> set[str]:
        follows: set[str] = set()
        for claim in claims:
            until = time.monotonic() + TURN_SECONDS
            going_on = True
            while going_on:
                going_on = time.monotonic() < until
                with database.tenant(tenant_id) as connection:
                    owed, going_on = _window(connection, tenant_id, claim, current, going_on=going_on)
                follows |= owed
        return follows

    return handle


def _window(
    connection: Connection, tenant_id: str, claim: Claim, current: Current, *, going_on: bool
) -> tuple[set[str], bool]:
    """Look at the next rows of one backfill; `(kinds enqueued, whether there is more)`.

    A chat that is cut anew is a window of its own: its lock is held for no other one. With `going_on` the claim is
    kept for the next one, otherwise it is finished, and due again when there is more.
    """
    backfill = backfills.get(connection, int(claim.key))
    if backfill is None or backfill.state != "running":
        runner.finish(connection, [claim])
        return set(), False
    request = backfill.request
    sources = _sources(connection, request)
    cursor = backfill.cursor or {"source": sources[0], "after": None}
    left = 1 if request.kind == "sessionize" else request.batch_size
    if request.limit is not None:
        left = min(left, request.limit - backfill.seen)
    rows = (
        backfills.window(
            connection, cursor["source"], cursor["after"], left, **_given(connection, request, current)
        )
        if cursor["source"] in sources and left > 0
        else []
    )
    if not rows:
        following = _next_source(connection, claim, backfill, sources, cursor, current, exhausted=left <= 0)
        return following, False
    asked = {row.key: row.chat for row in rows if row.missing or not request.missing_only}
    _do(connection, tenant_id, backfill, asked, current)
    now = chats.database_now(connection).timestamp()
    next_at = _next_at(cursor.get("next_at"), now, len(rows), request.rate_per_second)
    backfills.advance(
        connection,
        backfill.id,
        {**cursor, "after": str(rows[-1].position), "next_at": next_at, "raised_at": now + 0.001},
        len(rows),
        len(asked),
    )
    going_on = going_on and request.kind == "sessionize" and next_at <= now
    if going_on:
        runner.keep(connection, claim)
    else:
        runner.finish(connection, [claim], again_in=max(0.0, next_at - now))
    return {"summarize" if request.kind == "sessionize" else request.kind} if asked else set(), going_on


def _next_at(planned: float | None, now: float, rows: int, rate: float | None) -> float:
    """Return when the next window may be done, in seconds since the epoch.

    >>> _next_at(None, 1000.0, 100, 50.0), _next_at(997.0, 1000.0, 100, 50.0), _next_at(900.0, 1000.0, 100, 50.0)
    (1002.0, 999.0, 992.0)
    """
    if not rate:
        return now
    return max(now if planned is None else planned, now - MADE_UP_SECONDS) + rows / rate


def _do(
    connection: Connection,
    tenant_id: str,
    backfill: Backfill,
    asked: Mapping[str, str | None],
    current: Current,
) -> None:
    """Redo these keys, or enqueue jobs for them, each with its chat."""
    if backfill.request.kind == "sessionize":
        for chat_id in asked:
            session_ranges.sessionize_anew(connection, tenant_id, chat_id, current.rules)
        return
    if backfill.request.kind == "summarize" and not backfill.request.missing_only:
        summaries.outdate(connection, [int(key.removeprefix("session:")) for key in asked])
    jobs.raise_all(
        connection,
        tenant_id,
        (
            Job(
                kind=backfill.request.kind,
                key=key,
                lane=chat or "",
                priority=jobs.LATER,
                trace_id=f"backfill:{backfill.id}",
            )
            for key, chat in asked.items()
        ),
    )


def _next_source(
    connection: Connection,
    claim: Claim,
    backfill: Backfill,
    sources: Sequence[str],
    cursor: dict[str, Any],
    current: Current,
    *,
    exhausted: bool,
) -> set[str]:
    """Go on with the next table, or see whether every job is done."""
    following = sources[sources.index(cursor["source"]) + 1 :] if cursor["source"] in sources else ()
    if following and not exhausted:
        ended = {**cursor.get("ended", {}), cursor["source"]: cursor["after"]}
        turned = {**cursor, "source": following[0], "after": None, "ended": ended}
        backfills.advance(connection, backfill.id, turned, 0, 0)
        runner.finish(connection, [claim], again_in=0)
        return set()
    owed, dead = _outstanding(connection, backfill.request, cursor, current)
    if owed:
        runner.finish(connection, [claim], again_in=LOOK_AGAIN_SECONDS)
        return {backfill.request.kind}
    backfills.set_state(
        connection,
        backfill.id,
        "failed" if dead else "completed",
        error=f"{dead} rows were given up: see `backscroll status`" if dead else None,
    )
    runner.finish(connection, [claim])
    return set()


def _outstanding(
    connection: Connection, request: BackfillRequest, cursor: dict[str, Any], current: Current
) -> tuple[bool, int]:
    """Return whether any job is left, and how many were given up."""
    if request.kind == "sessionize":
        return False, 0
    given = _given(connection, request, current)
    reached = {**cursor.get("ended", {}), cursor["source"]: cursor["after"]}
    raised_until = datetime.fromtimestamp(cursor.get("raised_at", 0), UTC)
    found = [
        backfills.outstanding(
            connection, source, upto, raised_until=raised_until, missing_only=request.missing_only, **given
        )
        for source, upto in reached.items()
        if upto is not None
    ]
    return any(owed for owed, _ in found), sum(dead for _, dead in found)


def _plan(connection: Connection, request: BackfillRequest, current: Current) -> Plan:
    given = _given(connection, request, current)
    counted = [backfills.count(connection, source, **given) for source in _sources(connection, request)]
    return Plan(rows=sum(rows for rows, _ in counted), missing=sum(missing for _, missing in counted))


def _sources(connection: Connection, request: BackfillRequest) -> tuple[str, ...]:
    if request.kind == "embed" and not vectors.exist(connection):
        raise InvalidInput("this Postgres has no pgvector, so there is nothing to embed into", field="kind")
    return _SOURCES[request.kind]


def _given(connection: Connection, request: BackfillRequest, current: Current) -> dict[str, Any]:
    given: dict[str, Any] = {"chat": request.chat_id, "since": request.since, "until": request.until}
    if request.kind == "embed":
        written = spaces.written(connection)
        # the newest: the one being built, if any
        given["space"] = written[-1].id if written else 0
    if request.kind == "summarize":
        given |= {"version": current.summary_version, "min_messages": current.min_messages}
    return given
