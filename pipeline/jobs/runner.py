"""Run jobs: claim due rows of the table `jobs`, hand them to a handler, then finish, retry or give up.

A change raises `wanted` of a row (kind, key) in its own transaction. A worker claims rows under a lease, does the slow
part outside any transaction, and finishes in the transaction that saves the result, fenced by the claim's token: a
worker that was too slow cannot overwrite what its successor did. If every queued task is lost, the next
sweep finds the jobs.
"""

import random
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence, Set
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from itertools import groupby
from threading import Lock
from time import monotonic

import structlog
from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from pipeline.jobs import failures
from pipeline.store.connections.database import Database
from pipeline.store.jobs import claims as store_claims
from pipeline.store.jobs import jobs
from pipeline.store.jobs.claims import Turn
from pipeline.store.jobs.jobs import Claim
from pipeline.store.operations import counters
from schemas.errors import BudgetSpent, LeaseLost, Permanent, Retryable
from schemas.kinds import KINDS

log = structlog.get_logger(__name__)

MODEL_RETRY_SECONDS = 6 * 3600.0
"""Pause before a model is asked again that gave no usable answer."""
MODEL_ATTEMPTS = 3
SWITCHED_OFF_SECONDS = 120.0
"""Pause before it is looked whether what is switched off, for a chat or a backfill, is on again."""


@dataclass(frozen=True, kw_only=True)
class Policy:
    """How jobs are claimed."""

    # rows claimed at once
    batch: int
    lease_seconds: float
    max_attempts: int
    # the setting that keeps jobs of a kind waiting, as it is off
    switched_off: Callable[[str], str | None] = lambda _: None


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The result of one run of a kind."""

    claimed: int = 0
    finished: int = 0
    # of these, those that needed no work any more, or were put off
    passed_over: int = 0
    failed: int = 0
    # failures by reason, without message texts, the most frequent first
    reasons: Mapping[str, int] = field(default_factory=dict)
    # why nothing was claimed, if jobs of the kind wait
    waits: str = ""
    # more may be due: the batch was full, due rows were locked, or a claimed row was enqueued again, whose wake-up may
    # have come while it was held
    more: bool = False
    # kinds of jobs that are due now
    follows: frozenset[str] = frozenset()


Handler = Callable[[str, Sequence[Claim]], Set[str]]
"""Do and finish one tenant's claims; return the kinds of jobs that are due now."""


def run(
    database: Database,
    kind: str,
    handler: Handler,
    policy: Policy,
    turns: MutableMapping[str, Turn] | None = None,
    holding: Callable[[Sequence[Claim]], AbstractContextManager[None]] = lambda _: nullcontext(),
) -> Outcome:
    """Claim a batch of a kind and hand it to `handler`, tenant by tenant.

    `turns` holds the tenant last served for each kind, so that the next claim starts after it; `holding` is entered
    while claims are held. An error of the handler releases its claims, to be retried with a growing delay, or given up
    when the error is permanent or the attempts are used up. A batch that fails is done one by one, so that one bad row
    does not affect the others. Tenants not reached after half of the lease are left to another run. Raises only errors
    of its own statements (Postgres is down). Whatever made jobs due, none is claimed of a kind that is switched off.
    """
    if off := policy.switched_off(kind):
        return Outcome(waits=f"{off} is off")
    takes_abandoned = acquire_suspect(policy.lease_seconds)
    try:
        with database.maintenance() as connection:
            claimed = store_claims.claim(
                connection,
                kind,
                batch=policy.batch,
                lease_seconds=policy.lease_seconds,
                max_attempts=policy.max_attempts,
                after=turns.get(kind) if turns is not None else None,
                takes_abandoned=takes_abandoned,
            )
        if turns is not None:
            turns[kind] = claimed.turn
        claims = [*claimed.rows]
        if takes_abandoned and not any(claim.abandoned for claim in claims):
            release_suspect()
            takes_abandoned = False
        # tenants with few rows go first: one tenant's flood may fill the batch and take long
        share = Counter(claim.tenant_id for claim in claims)
        claims.sort(key=lambda c: (share[c.tenant_id], c.tenant_id, c.priority, c.key))
        with holding(claims):
            done = _do_all(database, kind, claims, handler, policy)
    finally:
        if takes_abandoned:
            release_suspect()
    return replace(done, more=claimed.more or done.more)


def _do_all(
    database: Database, kind: str, claims: Sequence[Claim], handler: Handler, policy: Policy
) -> Outcome:
    follows: set[str] = set()
    left: list[Claim] = []
    deadline = monotonic() + policy.lease_seconds / 2
    for _, group in groupby(claims, key=lambda c: c.tenant_id):
        if monotonic() > deadline:
            left += group
            continue
        try:
            follows |= _do(database, list(group), handler, policy)
        except BaseException:
            # The process is being stopped: its claims are released untried.
            release_untried(database, claims)
            raise
    release_untried(database, left)
    reasons = Counter(claim.failures[0] for claim in claims if claim.failures)
    failed = reasons.total()
    passed_over = sum(bool(claim.passed_over) and not claim.failures for claim in claims)
    finished = len(claims) - len(left) - failed
    if claims:
        log.info(
            "jobs_run",
            kind=kind,
            finished=finished,
            passed_over=passed_over,
            failed=failed,
            trace_ids=_traces(claims),
        )
    return Outcome(
        claimed=len(claims),
        finished=finished,
        passed_over=passed_over,
        failed=failed,
        reasons=dict(reasons.most_common()),
        more=bool(left) or any(claim.wanted_anew for claim in claims),
        follows=frozenset(follows),
    )


def _put_off(database: Database, claims: Sequence[Claim], policy: Policy) -> Sequence[Claim]:
    """Let one tenant's claims wait whose chat or session memory is off, at no attempt; return the others."""
    if not KINDS[claims[0].kind].fenced_by_change:
        return claims
    with database.tenant(claims[0].tenant_id) as connection:
        memory = not policy.switched_off("memory")
        off = jobs.switched_off(connection, [claim.key for claim in claims], session_memory=memory)
        held = jobs.still_held(connection, [claim for claim in claims if claim.key in off]) if off else []
        jobs.finish(connection, held, again_in=SWITCHED_OFF_SECONDS, error="waits: its memory is off")
    for claim in held:
        pass_over(claim)
    return [claim for claim in claims if claim.key not in off]


def _do(database: Database, claims: Sequence[Claim], handler: Handler, policy: Policy) -> Set[str]:
    """Run the handler on one tenant's claims; return the kinds due now."""
    try:
        wanted = _put_off(database, claims, policy)
        return handler(claims[0].tenant_id, wanted) if wanted else set()
    except Exception as error:  # noqa: BLE001 - every failure becomes the row's own record
        # An outage affects all of them alike.
        if len(claims) > 1 and not isinstance(error, Retryable):
            with database.maintenance() as connection:
                left = jobs.still_held(connection, claims)
            log.info(
                "batch_taken_apart", kind=claims[0].kind, rows=len(left), error=failures.reason_of(error)
            )
            return set[str]().union(*(_do(database, [claim], handler, policy) for claim in left))
        _release(database, claims, error, policy)
        return set()


def renew(database: Database, claim: Claim, lease_seconds: float) -> None:
    """Renew a claim's lease between two parts of its work. Raises `LeaseLost` if another worker may hold it."""
    with database.tenant(claim.tenant_id) as connection:
        jobs.renew(connection, claim, lease_seconds)


def fail(claim: Claim, error: Exception) -> str:
    """Record that a claim has failed, whether or not it is retried; return the reason."""
    claim.failures.append(failures.outline_of(error))
    return failures.reason_of(error)


def do_each(claims: Sequence[Claim], do: Callable[[Claim], bool | None]) -> bool:
    """Do claims one by one; return whether `do` gave True for any of them, so that other jobs follow.

    One for which it gives None needed no work and is passed over, as is one that was overtaken: its object was deleted,
    changed or joined meanwhile, or its lease expired. Neither is a failure.
    """
    follows = False
    for claim in claims:
        try:
            done = do(claim)
        except LeaseLost:
            log.info(f"{claim.kind}_overtaken", key=claim.key, trace_id=claim.trace_id)
            done = None
        if done is None:
            pass_over(claim)
        follows |= bool(done)
    return follows


def pass_over(claim: Claim) -> None:
    """Record that a claim needed no work or was put off, which is no failure."""
    claim.passed_over.append(None)


def finish_with_fallback(connection: Connection, claim: Claim, failure: Exception | None) -> None:
    """Finish a claim, or retry it a few times if `failure` says why the model's answer is missing."""
    if failure is None or claim.attempts >= MODEL_ATTEMPTS:
        jobs.finish(connection, [claim])
    else:
        budget_in = failure.retry_after if isinstance(failure, BudgetSpent) else 0.0
        jobs.do_again(connection, claim, delay_seconds=max(MODEL_RETRY_SECONDS, budget_in))


def give_up(connection: Connection, claim: Claim, error: Permanent) -> None:
    """Make a dead letter of a claim that no retry would help; if it was enqueued again meanwhile, it is due instead.

    Raises `LeaseLost` as `finish` does.
    """
    reason = fail(claim, error)
    log.warning("jobs_failed", kind=claim.kind, keys=[claim.key], error=reason, dead=True)
    jobs.mark_dead(connection, claim, reason)
    counters.add(connection, claim.tenant_id, {f"{claim.kind}_failures": 1, f"{claim.kind}_dead": 1})


def release_untried(database: Database, claims: Sequence[Claim]) -> None:
    """Release claims that were not tried: they are due at once."""
    if claims:
        with database.maintenance() as connection:
            jobs.release(connection, claims, delay_seconds=0, error=None)


def _traces(claims: Iterable[Claim]) -> list[str]:
    return sorted({claim.trace_id for claim in claims if claim.trace_id})


def _release(database: Database, claims: Sequence[Claim], error: Exception, policy: Policy) -> None:
    """Record a failure on its rows, and schedule their retry or give them up."""
    kind = claims[0].kind
    # An outage (Postgres, a provider) and a lost lease are not the row's fault.
    counts = not isinstance(error, Retryable)
    dead = isinstance(error, Permanent)
    delay = failures.delay_seconds(error, claims[0].attempts, random.random())  # noqa: S311
    reason = failures.reason_of(error)
    for claim in claims:
        fail(claim, error)
    log.warning(
        "jobs_failed",
        kind=kind,
        keys=[c.key for c in claims[:5]],
        rows=len(claims),
        trace_ids=_traces(claims),
        attempts=claims[0].attempts,
        error=reason,
        dead=dead,
        # the traceback of an error of Postgres would quote the row
        exc_info=error if counts and not dead and not isinstance(error, DBAPIError) else None,
    )
    with database.maintenance() as connection:
        given_up = jobs.release(
            connection,
            claims,
            error=reason,
            delay_seconds=delay,
            counts=counts,
            dead=dead,
            max_attempts=policy.max_attempts,
        )
    with database.tenant(claims[0].tenant_id) as connection:
        # waiting for a budget and losing a lease are no failures
        failed = 0 if isinstance(error, BudgetSpent | LeaseLost) else len(claims)
        counters.add(connection, claims[0].tenant_id, {f"{kind}_failures": failed, f"{kind}_dead": given_up})


_lock = Lock()
_until = 0.0


def acquire_suspect(seconds: float) -> bool:
    """Return whether an abandoned job may be claimed now; if so, block others for `seconds`, or `release_suspect`."""
    global _until
    with _lock:
        is_free = monotonic() >= _until
        if is_free:
            _until = monotonic() + seconds
        return is_free


def release_suspect() -> None:
    """Let the next abandoned job be claimed."""
    global _until
    _until = 0.0
