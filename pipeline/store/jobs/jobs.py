"""SQL of jobs: enqueue, finish, retry, give up, drop; `claims` has the claim."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import Connection, TextClause, text

from pipeline.store.connections.statements import arrays, column, holds, run
from schemas.errors import LeaseLost
from schemas.kinds import FENCED_BY_CHANGE, INGEST, Kind

LIVE, LATER = 0, 1
"""Priorities: live messages, and imports and backfills. The lower one is claimed first."""
LANE = "hashtext({lane}) & 32767"
"""The lane of a chat's jobs, which takes turns with other lanes; 0 is for jobs without a known chat."""

_ENQUEUE = text(f"""
    INSERT INTO jobs (tenant_id, kind, key, lane, priority, due_at, trace_id)
    SELECT :tenant, kind, key, CASE lane WHEN '' THEN 0 ELSE {LANE.format(lane="lane")} END, priority,
        now() + make_interval(secs => delay), trace
    FROM unnest(CAST(:kinds AS text[]), CAST(:keys AS text[]), CAST(:lanes AS text[]),
        CAST(:priorities AS smallint[]), CAST(:delays AS float8[]), CAST(:traces AS text[]))
        AS asked (kind, key, lane, priority, delay, trace)
    ORDER BY kind, key
    ON CONFLICT (tenant_id, kind, key) DO UPDATE SET
        wanted = jobs.wanted + 1,
        priority = CASE WHEN jobs.due_at IS NULL THEN excluded.priority
                        ELSE least(jobs.priority, excluded.priority) END,
        -- not every caller knows the chat
        lane = CASE excluded.lane WHEN 0 THEN jobs.lane ELSE excluded.lane END,
        pending_since = CASE WHEN jobs.due_at IS NULL THEN now() ELSE jobs.pending_since END,
        -- a dead row is revived by a change, but not `ingest`: its chat goes on once the operator has looked
        due_at = CASE WHEN jobs.dead_at IS NOT NULL AND jobs.kind = '{INGEST}' THEN NULL
                      -- what waits to be done again need not wait once there is something new
                      WHEN jobs.claimed IS NULL AND jobs.attempts > 0 AND jobs.last_error IS NULL
                          THEN least(jobs.due_at, excluded.due_at)
                      ELSE coalesce(jobs.due_at, excluded.due_at) END,
        attempts = CASE WHEN jobs.dead_at IS NOT NULL AND jobs.kind <> '{INGEST}' THEN 0 ELSE jobs.attempts END,
        dead_at = CASE WHEN jobs.kind = '{INGEST}' THEN jobs.dead_at END,
        trace_id = coalesce(excluded.trace_id, jobs.trace_id)
""")
# Rows are locked before it is looked whether something newer is wanted: what is raised until then counts, and what
# comes later finds no row and makes one. `ingest` has a row for each chat, which the sweep makes due again.
# The keys are named in every part: on a table that was not analysed yet, to look at all jobs of the tenant for each of
# them would seem as good.
_FINISH = text(f"""
    WITH mine AS MATERIALIZED (
        SELECT jobs.key, jobs.kind = '{INGEST}' OR jobs.wanted > jobs.claimed
            OR CAST(:again AS float8) IS NOT NULL AS stays, jobs.wanted > jobs.claimed AS anew
        FROM unnest(CAST(:keys AS text[]), CAST(:tokens AS bigint[])) AS claim (key, token)
        JOIN jobs ON jobs.tenant_id = :tenant AND jobs.kind = :kind AND jobs.key = claim.key
            AND jobs.token = claim.token
        WHERE jobs.claimed IS NOT NULL AND jobs.key = ANY(CAST(:keys AS text[]))
        ORDER BY jobs.key FOR UPDATE OF jobs
    ), gone AS (
        DELETE FROM jobs USING mine
        WHERE jobs.tenant_id = :tenant AND jobs.kind = :kind AND jobs.key = mine.key AND NOT mine.stays
            AND jobs.key = ANY(CAST(:keys AS text[]))
    ), kept AS (
        UPDATE jobs SET claimed = NULL, attempts = 0, last_error = CAST(:error AS text),
            due_at = CASE WHEN wanted > claimed THEN now()
                WHEN CAST(:again AS float8) IS NOT NULL THEN now() + make_interval(secs => :again) END,
            pending_since = CASE WHEN wanted > claimed OR CAST(:again AS float8) IS NOT NULL THEN now()
                ELSE pending_since END
        FROM mine WHERE jobs.tenant_id = :tenant AND jobs.kind = :kind AND jobs.key = mine.key AND mine.stays
            AND jobs.key = ANY(CAST(:keys AS text[]))
    )
    SELECT count(*) AS held, array_agg(key) FILTER (WHERE anew) AS anew FROM mine
""")
_HELD = "tenant_id = :tenant AND kind = :kind AND key = :key AND token = :token AND claimed IS NOT NULL"
_LOCK_CLAIM = text(f"SELECT 1 FROM jobs WHERE {_HELD} FOR NO KEY UPDATE")
_RENEW = text(f"""
    UPDATE jobs SET due_at = now() + make_interval(secs => :lease),
        attempts = CASE WHEN :anew THEN 1 ELSE attempts END
    WHERE {_HELD}
""")
_DO_AGAIN = text(f"""
    UPDATE jobs SET claimed = NULL, last_error = NULL, pending_since = now(),
        attempts = CASE WHEN wanted > claimed THEN 0 ELSE attempts END,
        due_at = CASE WHEN wanted > claimed THEN now() ELSE now() + make_interval(secs => :delay) END
    WHERE {_HELD}
""")
_MARK_DEAD = text(f"""
    UPDATE jobs SET claimed = NULL, last_error = :error,
        due_at = CASE WHEN wanted > claimed THEN now() END,
        dead_at = CASE WHEN wanted > claimed THEN NULL ELSE now() END
    WHERE {_HELD}
""")
_STILL_CLAIMED = text("""
    SELECT jobs.tenant_id, jobs.key
    FROM jobs JOIN unnest(CAST(:tenants AS text[]), CAST(:keys AS text[]), CAST(:tokens AS bigint[]))
        AS mine (tenant_id, key, token) USING (tenant_id, key, token)
    WHERE jobs.kind = :kind AND jobs.claimed IS NOT NULL
""")
_STATE = text("""
    SELECT due_at, dead_at, last_error FROM jobs WHERE tenant_id = :tenant AND kind = :kind AND key = :key
""")


class NewJob(NamedTuple):
    kind: str
    key: str
    # the chat it is about, as the chats of a tenant take turns; empty: none
    lane: str = ""
    priority: int = LIVE
    # seconds until it is due
    delay_seconds: float = 0
    # the request that caused it
    trace_id: str | None = None


AGAIN = _ENQUEUE.text[_ENQUEUE.text.index("ON CONFLICT") :]
"""The conflict clause of enqueueing, for statements that enqueue jobs for the rows they store."""


def enqueue_all(connection: Connection, tenant_id: str, new_jobs: Iterable[NewJob]) -> None:
    """Enqueue jobs in the transaction of the change that asks for them."""
    # the last job of a key counts
    unique = {job[:2]: job._replace(delay_seconds=float(job.delay_seconds)) for job in new_jobs}
    if unique:
        values = arrays("kinds keys lanes priorities delays traces", unique.values())
        run(connection, _ENQUEUE, tenant=tenant_id, **values)


def enqueue(
    connection: Connection,
    tenant_id: str,
    kind: str,
    keys: Iterable[str],
    *,
    lane: str = "",
    priority: int = LIVE,
    delay_seconds: float = 0,
    trace_id: str | None = None,
) -> None:
    """Enqueue jobs of one kind, about one chat or none: see `enqueue_all`."""
    enqueue_all(
        connection, tenant_id, (NewJob(kind, key, lane, priority, delay_seconds, trace_id) for key in keys)
    )


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A row of `jobs` that is ours until its lease ends."""

    tenant_id: str
    kind: str
    key: str
    # fencing token: no other claim of this row has this number
    token: int
    # number of attempts, this one included
    attempts: int
    # the request that caused it
    trace_id: str | None
    # `LIVE` or `LATER`; jobs that it enqueues are no more urgent
    priority: int = LIVE
    # its former worker died, or was slower than its lease
    abandoned: bool = False
    # what went wrong, even if the job succeeds in the end: `runner.fail`
    failures: list[str] = field(default_factory=list, compare=False)
    # not empty: it was skipped, without an error: `runner.pass_over`
    passed_over: list[None] = field(default_factory=list, compare=False)
    # not empty: it was requested again meanwhile, and is due again
    wanted_anew: list[None] = field(default_factory=list, compare=False)


def finish(
    connection: Connection,
    claims: Sequence[Claim],
    *,
    again_in: float | None = None,
    error: str | None = None,
) -> None:
    """Mark one tenant's claims done, as the last statement of the transaction that saves their results.

    A job is deleted unless it was requested again. `again_in` keeps it due, after this many seconds, because a part is
    left or because of the `error` that it waits out. Raises `LeaseLost` if a claim is lost, so that the transaction
    rolls back.
    """
    if not claims:
        return
    tenant_id, kind = claims[0].tenant_id, claims[0].kind
    values = {"keys": [claim.key for claim in claims], "tokens": [claim.token for claim in claims]}
    done = run(connection, _FINISH, tenant=tenant_id, kind=kind, again=again_in, error=error, **values).one()
    if done.held != len(claims):
        raise LeaseLost(
            f"{len(claims) - done.held} of {len(claims)} rows of {kind} were claimed by somebody else"
        )
    anew = frozenset(done.anew or ())
    for claim in claims:
        if claim.key in anew:
            claim.wanted_anew.append(None)


def holds_claim(connection: Connection, claim: Claim) -> bool:
    """Lock a claimed job against the next claim; return False if the claim is lost."""
    return holds(connection, _LOCK_CLAIM, **_key(claim))


def keep(connection: Connection, claim: Claim) -> None:
    """Require that a claim still holds, to save a part of its result and continue. Raises `LeaseLost`."""
    _require(claim, holds_claim(connection, claim))


def renew(connection: Connection, claim: Claim, lease_seconds: float, *, anew: bool = False) -> None:
    """Renew a claim's lease, and with `anew` its attempts. Raises `LeaseLost` if the claim is lost."""
    _change(connection, _RENEW, claim, lease=lease_seconds, anew=anew)


def do_again(connection: Connection, claim: Claim, *, delay_seconds: float) -> None:
    """Make a claimed job due again after a delay, or at once if requested again meanwhile, instead of `finish`.

    Its attempts count; what is saved is to be replaced. Raises `LeaseLost` as `finish` does.
    """
    _change(connection, _DO_AGAIN, claim, delay=delay_seconds)


def mark_dead(connection: Connection, claim: Claim, error: str) -> None:
    """Mark a claimed job as dead, unless requested again meanwhile. Raises `LeaseLost` if the claim is lost."""
    _change(connection, _MARK_DEAD, claim, error=error)


def _key(claim: Claim) -> dict[str, Any]:
    return {"tenant": claim.tenant_id, "kind": claim.kind, "key": claim.key, "token": claim.token}


def _change(connection: Connection, statement: TextClause, claim: Claim, **values: Any) -> None:
    _require(claim, run(connection, statement, **_key(claim), **values).rowcount == 1)


def _require(claim: Claim, held: bool) -> None:
    if not held:
        raise LeaseLost(f"{claim.kind} {claim.key} was claimed by somebody else")


# A job requested again meanwhile is not given up, but gets all its attempts. Not so `ingest`: new messages do not help
# a chat that cannot be placed.
ANEW = f"wanted > claimed AND kind <> '{INGEST}'"

_SPENT = f"(:dead OR (:counts AND attempts >= :max_attempts)) AND NOT ({ANEW})"
_RETRY = text(f"""
    UPDATE jobs SET claimed = NULL, last_error = coalesce(CAST(:error AS text), last_error),
        attempts = CASE WHEN (:dead OR (:counts AND attempts >= :max_attempts)) AND {ANEW} THEN 0
                        WHEN :counts THEN attempts ELSE greatest(attempts - 1, 0) END,
        due_at = CASE WHEN {_SPENT} THEN NULL ELSE now() + make_interval(secs => :delay) END,
        dead_at = CASE WHEN {_SPENT} THEN now() END
    FROM unnest(CAST(:tenants AS text[]), CAST(:keys AS text[]), CAST(:tokens AS bigint[]))
        AS mine (tenant_id, key, token)
    WHERE jobs.tenant_id = mine.tenant_id AND jobs.kind = :kind AND jobs.key = mine.key
        AND jobs.token = mine.token AND jobs.claimed IS NOT NULL
    RETURNING jobs.dead_at IS NOT NULL
""")


def release(
    connection: Connection,
    claims: Sequence[Claim],
    *,
    error: str | None,
    delay_seconds: float,
    counts: bool = False,
    dead: bool = False,
    max_attempts: int = 0,
) -> int:
    """Release claims of a kind without a result: retry their jobs, or give up if `dead` or out of attempts.

    They lose no attempt unless it `counts`, and keep the last error where there is no new one. Returns how many were
    given up.
    """
    values = {"error": error, "delay": delay_seconds, "counts": counts, "dead": dead, **_rows(claims)}
    return sum(column(connection, _RETRY, kind=claims[0].kind, max_attempts=max_attempts, **values))


def still_held(connection: Connection, claims: Sequence[Claim]) -> list[Claim]:
    """Return the claims of a kind that are neither finished nor lost."""
    held = {
        (row.tenant_id, row.key)
        for row in run(connection, _STILL_CLAIMED, kind=claims[0].kind, **_rows(claims))
    }
    return [claim for claim in claims if (claim.tenant_id, claim.key) in held]


def _rows(claims: Sequence[Claim]) -> dict[str, list[Any]]:
    return arrays("tenants keys tokens", ((claim.tenant_id, claim.key, claim.token) for claim in claims))


def state(connection: Connection, tenant_id: str, kind: str, key: str) -> tuple[str, str | None]:
    """Return whether a job is `pending`, `dead` or neither (`none`), and its last error."""
    row = run(connection, _STATE, tenant=tenant_id, kind=kind, key=key).one_or_none()
    if row is None:
        return "none", None
    if row.dead_at is not None:
        return "dead", row.last_error
    return ("none" if row.due_at is None else "pending"), row.last_error


_DROP = text("DELETE FROM jobs WHERE tenant_id = :tenant AND kind = ANY(:kinds) AND key = ANY(:keys)")
_DROP_OLD = text("DELETE FROM jobs WHERE tenant_id = :tenant AND kind = :kind AND pending_since <= :until")
_CLEAR_ERRORS = text("""
    UPDATE jobs SET last_error = NULL
    WHERE tenant_id = :tenant AND kind = ANY(:kinds) AND key = ANY(:keys) AND last_error IS NOT NULL
""")
_FENCE = text("""
    WITH locked AS MATERIALIZED (
        SELECT kind, key FROM jobs
        WHERE tenant_id = :tenant AND kind = ANY(:kinds) AND key = ANY(:keys) AND claimed IS NOT NULL
        ORDER BY kind, key FOR UPDATE
    )
    UPDATE jobs w SET token = nextval('job_token'), claimed = NULL, attempts = 0, due_at = now()
    FROM locked WHERE w.tenant_id = :tenant AND w.kind = locked.kind AND w.key = locked.key
""")
_SWITCHED_OFF = text("""
    SELECT key FROM unnest(CAST(:keys AS text[])) AS key
    CROSS JOIN LATERAL (SELECT split_part(key, ':', 1) AS owner, split_part(key, ':', 2) AS id) part
    WHERE CASE owner
        WHEN 'message' THEN EXISTS (SELECT FROM messages m JOIN chats c USING (tenant_id, chat_id)
            WHERE m.id = CAST(part.id AS bigint) AND NOT c.memory)
        WHEN 'session' THEN NOT :memory OR EXISTS (SELECT FROM conversation_sessions s
            JOIN chats c USING (tenant_id, chat_id) WHERE s.id = CAST(part.id AS bigint) AND NOT c.memory)
        WHEN 'memory' THEN NOT :memory AND EXISTS (SELECT FROM memories m
            WHERE m.id = CAST(part.id AS uuid) AND m.document_id IS NULL) END
""")


def drop(connection: Connection, tenant_id: str, kinds: Iterable[Kind | str], keys: Iterable[str]) -> int:
    """Delete jobs whose object was deleted, so that results in flight are discarded; return how many."""
    return run(
        connection, _DROP, tenant=tenant_id, kinds=[str(kind) for kind in kinds], keys=list(keys)
    ).rowcount


def drop_old(connection: Connection, tenant_id: str, kind: Kind, until: datetime) -> None:
    """Delete a tenant's jobs of one kind that were pending at a time."""
    run(connection, _DROP_OLD, tenant=tenant_id, kind=str(kind), until=until)


def clear_errors(connection: Connection, tenant_id: str, keys: Iterable[str]) -> None:
    """Clear the errors of jobs whose object has changed: a model's error may quote its input."""
    run(connection, _CLEAR_ERRORS, **_of_changed(tenant_id, keys))


def fence(connection: Connection, tenant_id: str, keys: Iterable[str]) -> None:
    """Discard results in flight for changed objects, and make their jobs claimable at once."""
    run(connection, _FENCE, **_of_changed(tenant_id, keys))


def switched_off(connection: Connection, keys: Iterable[str], *, session_memory: bool) -> set[str]:
    """Return those of these `owner:id` whose chat's memory is off, or session memory (which documents need not)."""
    return set(column(connection, _SWITCHED_OFF, keys=list(keys), memory=session_memory))


def _of_changed(tenant_id: str, keys: Iterable[str]) -> dict[str, object]:
    return {"tenant": tenant_id, "kinds": [str(kind) for kind in FENCED_BY_CHANGE], "keys": list(keys)}
