"""SQL that claims jobs: abandoned ones first, then live jobs before imports and backfills, in fair turns.

A claim costs the same however many jobs are pending, of however many tenants: every look at the table is the first
entries of an index, their number bounded by the batch. Only the rows that are taken are locked, so workers that
claim at the same moment take different ones. The sweep's statements are here too: they find what no claim finds.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection, Row, text

from pipeline.store.connections.statements import arrays, holds, run
from pipeline.store.jobs.jobs import ANEW, LATER, LIVE, Claim
from schemas.kinds import INGEST

# Each of these statements has one good plan, by the indexes, and making it anew would take longer than a claim. Kept
# from a moment when the table was all but empty it must not be one that reads or sorts the table.
_PLANNED = text("""
    SELECT set_config('plan_cache_mode', 'force_generic_plan', true),
        set_config('enable_seqscan', 'off', true), set_config('enable_sort', 'off', true)
""")
_TAKEN = """
    claimed = wanted, token = nextval('job_token'), attempts = attempts + 1,
        due_at = now() + make_interval(secs => :lease)
"""
_GIVEN = "jobs.tenant_id, jobs.kind, jobs.key, jobs.token, jobs.attempts, jobs.trace_id, jobs.priority"
# One of the rows whose lease ran out may have killed its worker. Those of as many attempts are claimed together, an
# eighth as many after each attempt, and alone for the last two: whatever kills burns nobody else, and the others of a
# batch do not wait for one claim each.
_CLAIM_ABANDONED = text(f"""
    WITH oldest AS (
        SELECT attempts FROM jobs
        WHERE kind = :kind AND due_at <= now() AND claimed IS NOT NULL AND attempts < :max_attempts
        ORDER BY due_at LIMIT 1
    ), picked AS MATERIALIZED (
        SELECT tenant_id, kind, key FROM jobs
        WHERE kind = :kind AND due_at <= now() AND claimed IS NOT NULL AND attempts = (SELECT attempts FROM oldest)
        ORDER BY due_at
        LIMIT (SELECT CAST(CASE WHEN attempts + 2 < :max_attempts THEN greatest(1, :batch / 8 ^ attempts) ELSE 1 END
            AS bigint) FROM oldest)
        FOR UPDATE SKIP LOCKED
    )
    UPDATE jobs SET {_TAKEN}
    FROM picked WHERE jobs.tenant_id = picked.tenant_id AND jobs.kind = picked.kind AND jobs.key = picked.key
    RETURNING {_GIVEN}, true AS abandoned
""")
_FREE = "w.kind = :kind AND w.priority = :priority AND w.due_at IS NOT NULL AND w.claimed IS NULL"
# Walk the tenants from the one served last, at most a batch of them; of each walk the lanes in the same way, and
# deal: up to four times what the batch takes, as another worker may be taking some of it right now.
_DEAL = text(f"""
    WITH RECURSIVE walk (tenant_id, wrapped, step) AS (
        SELECT CAST(:tenant AS text), false, 0
        UNION ALL
        SELECT next.tenant_id, next.wrapped, walk.step + 1
        FROM walk CROSS JOIN LATERAL (
            (SELECT w.tenant_id, walk.wrapped FROM jobs w WHERE {_FREE} AND w.tenant_id > walk.tenant_id
                ORDER BY w.tenant_id LIMIT 1)
            UNION ALL
            (SELECT w.tenant_id, true FROM jobs w WHERE {_FREE} AND NOT walk.wrapped
                ORDER BY w.tenant_id LIMIT 1)
            LIMIT 1
        ) AS next
        WHERE walk.step < :batch AND (NOT next.wrapped OR next.tenant_id <= :tenant)
    ), tenants AS MATERIALIZED (
        SELECT tenant_id, step, CAST(least(:batch, ceil(4.0 * :batch / count(*) OVER ())) AS integer) AS share
        FROM walk WHERE step > 0
    )
    SELECT tenants.tenant_id, tenants.step AS tenant_step, dealt.key, dealt.lane, dealt.step AS lane_step
    FROM tenants CROSS JOIN LATERAL (
        WITH RECURSIVE walk (lane, wrapped, step) AS (
            SELECT CAST(:lane AS integer), false, 0
            UNION ALL
            SELECT next.lane, next.wrapped, walk.step + 1
            FROM walk CROSS JOIN LATERAL (
                (SELECT w.lane, walk.wrapped FROM jobs w
                    WHERE {_FREE} AND w.tenant_id = tenants.tenant_id AND w.lane > walk.lane
                    ORDER BY w.lane LIMIT 1)
                UNION ALL
                (SELECT w.lane, true FROM jobs w
                    WHERE {_FREE} AND w.tenant_id = tenants.tenant_id AND NOT walk.wrapped
                    ORDER BY w.lane LIMIT 1)
                LIMIT 1
            ) AS next
            WHERE walk.step < tenants.share AND (NOT next.wrapped OR next.lane <= :lane)
        ), lanes AS MATERIALIZED (
            SELECT lane, step, CAST(ceil(1.0 * tenants.share / count(*) OVER ()) AS integer) AS share
            FROM walk WHERE step > 0
        )
        SELECT due.key, lanes.lane, lanes.step, row_number() OVER (ORDER BY due.turn, lanes.step) AS turn
        FROM lanes CROSS JOIN LATERAL (
            SELECT w.key, row_number() OVER (ORDER BY w.due_at) AS turn FROM jobs w
            WHERE {_FREE} AND w.tenant_id = tenants.tenant_id AND w.lane = lanes.lane AND w.due_at <= now()
            ORDER BY w.due_at LIMIT lanes.share
        ) AS due
        ORDER BY turn LIMIT tenants.share
    ) AS dealt
    ORDER BY dealt.turn, tenants.step
""")
# The order of `unnest` is that of the loop, which ends with the batch: what comes behind is not locked. `coalesce`
# leaves it only the primary key: on a table that was not analysed yet, the index of free jobs would seem as good.
_TAKE = text(f"""
    WITH picked AS MATERIALIZED (
        SELECT free.tenant_id, free.key
        FROM unnest(CAST(:tenants AS text[]), CAST(:keys AS text[])) WITH ORDINALITY
            AS candidate (tenant_id, key, place)
        CROSS JOIN LATERAL (
            SELECT w.tenant_id, w.key FROM jobs w
            WHERE w.tenant_id = candidate.tenant_id AND w.kind = :kind AND w.key = candidate.key
                AND coalesce(w.claimed, -1) = -1 AND w.due_at <= now()
            FOR UPDATE SKIP LOCKED
        ) AS free
        ORDER BY candidate.place LIMIT :batch
    )
    UPDATE jobs SET {_TAKEN}
    FROM picked WHERE jobs.tenant_id = picked.tenant_id AND jobs.kind = :kind AND jobs.key = picked.key
    RETURNING {_GIVEN}, false AS abandoned
""")
# Wait as after a failed attempt: a job that kills its worker several times in a row must not be dead within seconds.
_RELEASE_DEAD = text("""
    UPDATE jobs SET due_at = least(due_at, now() + make_interval(secs => 2.0 ^ attempts))
    WHERE claimed IS NOT NULL AND token = ANY(CAST(:tokens AS bigint[]))
""")
_MARK_EXHAUSTED_DEAD = text(f"""
    UPDATE jobs SET claimed = NULL,
        attempts = CASE WHEN {ANEW} THEN 0 ELSE attempts END,
        due_at = CASE WHEN {ANEW} THEN now() END,
        dead_at = CASE WHEN NOT ({ANEW}) THEN now() END,
        last_error = coalesce(last_error, 'the worker died or hung every time')
    WHERE claimed IS NOT NULL AND due_at <= now() AND attempts >= :max_attempts
    RETURNING tenant_id, kind, dead_at
""")
_ENQUEUE_ARRIVALS = text(f"""
    UPDATE jobs SET due_at = now(), wanted = jobs.wanted + 1, pending_since = now()
    FROM (SELECT DISTINCT tenant_id, chat_id FROM arrivals WHERE quarantined_at IS NULL) waiting
    WHERE jobs.tenant_id = waiting.tenant_id AND jobs.kind = '{INGEST}' AND jobs.key = waiting.chat_id
        AND jobs.due_at IS NULL AND jobs.dead_at IS NULL
""")
_CLAIMABLE = "due_at IS NOT NULL AND claimed IS NULL"
_DUE_BY_KIND = text(f"""
    WITH RECURSIVE kinds AS (
        (SELECT kind FROM jobs WHERE {_CLAIMABLE} ORDER BY kind LIMIT 1)
        UNION ALL
        SELECT (SELECT jobs.kind FROM jobs WHERE {_CLAIMABLE} AND jobs.kind > kinds.kind ORDER BY jobs.kind LIMIT 1)
        FROM kinds WHERE kinds.kind IS NOT NULL
    ), due AS (
        SELECT kind, (SELECT count(*) FROM (SELECT FROM jobs WHERE {_CLAIMABLE} AND jobs.kind = kinds.kind
            AND priority = level AND due_at <= now() LIMIT :at_most) AS counted) AS found
        FROM kinds CROSS JOIN unnest(CAST(:priorities AS smallint[])) AS level WHERE kind IS NOT NULL
        UNION ALL
        SELECT kind, count(*) FROM jobs WHERE claimed IS NOT NULL AND due_at <= now() GROUP BY kind
    )
    SELECT kind, sum(found) FROM due GROUP BY kind HAVING sum(found) > 0
""")


class Turn(NamedTuple):
    """The tenant and lane served last: the next claim starts after them, and wraps around."""

    tenant_id: str = ""
    lane: int = -1


class Claimed(NamedTuple):
    """The rows of one claim."""

    rows: Sequence[Claim]
    # whether more jobs may be due, including jobs that were locked at that moment
    more: bool
    turn: Turn


def _oldest_of(priority: int) -> str:
    return f"""(SELECT tenant_id, key, lane, priority FROM jobs
        WHERE kind = :kind AND priority = {priority} AND due_at <= now() AND claimed IS NULL
        ORDER BY due_at LIMIT :batch)"""


# All due jobs, if they fit into a batch.
_OLDEST = text(f"SELECT * FROM ({_oldest_of(LIVE)} UNION ALL {_oldest_of(LATER)}) AS due LIMIT :batch")


def claim(
    connection: Connection,
    kind: str,
    *,
    batch: int,
    lease_seconds: float,
    max_attempts: int,
    after: Turn | None = None,
    takes_abandoned: bool = True,
) -> Claimed:
    """Claim up to `batch` due jobs of a kind under a lease: live ones first, fair by tenant and chat (maintenance).

    Jobs whose lease ran out are claimed first, by themselves.
    """
    after = after or Turn()
    values = {"kind": kind, "lease": lease_seconds}
    run(connection, _PLANNED)
    if takes_abandoned:
        abandoned = run(connection, _CLAIM_ABANDONED, **values, batch=batch, max_attempts=max_attempts).all()
        if abandoned:
            return Claimed(rows=_as_claims(abandoned), more=True, turn=after)
    oldest = run(connection, _OLDEST, kind=kind, batch=batch).all()
    if not oldest:
        return Claimed(rows=[], more=False, turn=after)
    dealt: Sequence[Row[Any]] = []
    priority = oldest[-1].priority
    before = [row for row in oldest if row.priority < priority]
    if len(oldest) == batch:
        # more is due than fits: jobs of the last priority take turns, all others fit
        shared = {"kind": kind, "priority": priority, "batch": batch - len(before)}
        dealt = run(connection, _DEAL, **shared, tenant=after.tenant_id, lane=after.lane).all()
    # The oldest come last as a fallback: lanes whose jobs are not due yet may have used up the turns.
    candidates = dict.fromkeys((row.tenant_id, row.key) for row in (*before, *dealt, *oldest))
    rows = run(connection, _TAKE, **values, batch=batch, **arrays("tenants keys", candidates)).all()
    more = len(oldest) == batch or len(rows) < len(candidates)
    return Claimed(rows=_as_claims(rows), more=more, turn=_turn(dealt, rows) or after)


def _as_claims(rows: Iterable[Row[Any]]) -> list[Claim]:
    return [Claim(**row._mapping) for row in rows]


def _turn(dealt: Sequence[Row[Any]], taken: Sequence[Row[Any]]) -> Turn | None:
    """Return the last tenant and lane in the walk that a job was taken from, or None if no turns were dealt."""
    keys = {(row.tenant_id, row.key) for row in taken}
    served = [row for row in dealt if (row.tenant_id, row.key) in keys]
    last = max(served, key=lambda row: (row.tenant_step, row.lane_step), default=None)
    return None if last is None else Turn(tenant_id=last.tenant_id, lane=last.lane)


# Any constant will do; it names "sweeping Backscroll" among the advisory locks of this database.
SWEEPING = 0x62737765


def lock_sweep(connection: Connection) -> bool:
    """Block other sweeps until this transaction ends; return False if another one is running."""
    return holds(connection, "SELECT pg_try_advisory_xact_lock(:key)", key=SWEEPING)


def release_dead(connection: Connection, tokens: Sequence[int]) -> int:
    """End the leases of a process known to be gone, by their tokens; return how many it still had (maintenance)."""
    return run(connection, _RELEASE_DEAD, tokens=list(tokens)).rowcount


def mark_exhausted_dead(connection: Connection, max_attempts: int) -> dict[tuple[str, str], int]:
    """Mark expired jobs without attempts left as dead, or due if requested again (maintenance).

    Returns how many are dead, by tenant and kind.
    """
    rows = run(connection, _MARK_EXHAUSTED_DEAD, max_attempts=max_attempts)
    return Counter((row.tenant_id, row.kind) for row in rows if row.dead_at is not None)


def enqueue_arrivals(connection: Connection) -> int:
    """Make the job of every chat with unplaced messages due; return how many were not (maintenance)."""
    return run(connection, _ENQUEUE_ARRIVALS).rowcount


def due_by_kind(connection: Connection, at_most: int) -> dict[str, int]:
    """Count the jobs that may be claimed now, by kind, each priority up to `at_most` (maintenance)."""
    rows = run(connection, _DUE_BY_KIND, at_most=at_most, priorities=[LIVE, LATER])
    return {str(kind): int(count) for kind, count in rows}
