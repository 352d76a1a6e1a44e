"""The Celery tasks: `ingest`, one for each kind of job, and the clock's `sweep` and `prune`."""

import contextlib
import math
import time
import traceback
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import Any, TypeVar

import structlog
from celery import Celery, Task, shared_task
from celery.app.task import Context
from celery.worker.request import Request
from celery.worker.state import revoked
from kombu.utils import json
from pydantic import TypeAdapter, ValidationError

from pipeline.ingest import accept as pipeline_ingest
from pipeline.ingest.accept import MessageLimits, report_left_out
from pipeline.jobs.failures import reason_of
from pipeline.jobs.runner import Outcome
from pipeline.operations import sweep as pipeline_sweep
from pipeline.operations.retention import prune_all, retention_of
from pipeline.people import suppression
from pipeline.store.chats import chats
from pipeline.store.connections.database import Database
from pipeline.store.jobs import job_admin
from pipeline.store.operations import counters
from schemas.base import FROM_PLATFORM
from schemas.errors import BackscrollError, InvalidInput, JobsFailed, PayloadRefused, Retryable, SettingsError
from schemas.kinds import INGEST, KINDS
from schemas.masking import masked, masked_json
from schemas.messages import clean_text
from schemas.payloads import QueuedIngest, TenantId, parse_payload
from schemas.settings import Settings
from workers import connection, envelope, queues, resources
from workers.queues import BACKFILL, wake_up
from workers.resources import Resources
from workers.signals import current_request_id

log = structlog.get_logger(__name__)

T = TypeVar("T")
Errors = type[Exception] | tuple[type[Exception], ...]

WAIT_SECONDS = 2.0
ERROR_CHARS = 500
KEY_DIGITS = 16
_tenant = TypeAdapter(TenantId)


class PayloadRequest(Request):  # type: ignore[misc] # Celery ships no types
    """A payload's task, which its worker never drops: what has expired or was revoked is refused by the task.

    The worker reports only an outline of it.
    """

    expires = None

    def info(self, safe: bool = False) -> dict[str, Any]:
        """Return what `inspect active` shows."""
        shown: dict[str, Any] = super().info(safe=True)
        return shown

    def revoked(self) -> bool:
        """Have the task refuse what somebody has revoked."""
        if self.id in revoked and (self.args or self.kwargs):
            self._request_dict["refused"] = "it was revoked"
        return False

    def terminate(self, *args: Any, **kwargs: Any) -> None:
        """Let the task finish: what is being stored would be lost."""


# A payload is in no table before it is accepted: so this task alone returns to the queue when its worker dies.
@shared_task(
    name="backscroll.ingest",
    bind=True,
    reject_on_worker_lost=True,
    Request=PayloadRequest,
    throws=(JobsFailed, PayloadRefused),
)
def ingest(self: Task, *args: Any, **payload: Any) -> dict[str, int] | str:
    """Store the messages of a payload, waiting while Postgres is down or not upgraded; without one, place arrivals.

    A payload that cannot be accepted, or has killed its process too often, becomes a dead letter; then this raises
    `PayloadRefused`, so that task monitoring shows it, and the task is acknowledged.
    """
    if not (args or payload or self.request.get("refused")):
        return result_of("ingest", resources.run(self.app, "ingest"))
    held = _after_outages(resources.current, errors=Exception)
    refuse = partial(_refuse, held, {"args": args, "kwargs": payload} if args or payload else None)
    try:
        parsed = _checked(self.request, held.settings, args or payload)
    except Exception as error:  # noqa: BLE001 - whatever a sender has made up
        reason = masked(str(error)) if isinstance(error, InvalidInput) else type(error).__name__
        log.warning("payload_refused", error=reason)
        raise refuse(reason) from None
    tenant_id, suspect = parsed.tenant or held.settings.tenant, f"payload:{self.request.id}"
    again = bool(self.request.delivery_info.get("redelivered"))
    # A redelivered task's first delivery was not counted, and killed its process if any did.
    begin = partial(_begin, held.database, tenant_id, suspect)
    tries = _after_outages(begin, errors=Exception) if again else 0
    if tries >= held.settings.job_max_attempts:
        log.error("payload_kills", tries=tries)
        raise refuse(f"its process ended {tries} times", suspect=(tenant_id, suspect))
    trace_id = current_request_id()
    accept = partial(
        pipeline_ingest.accept,
        held.database,
        tenant_id,
        parsed.chat,
        parsed.messages,
        limits=MessageLimits.of(held.settings),
        trace_id=trace_id,
    )
    try:
        accepted = _after_outages(accept)
    except Exception as error:  # noqa: BLE001 - a task that fails is acknowledged, and its messages would be lost
        # Neither the whole error nor its traceback: Postgres quotes the row that it refuses.
        reason = f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
        frames = traceback.format_tb(error.__traceback__)
        log.error("accept_failed", error=reason, frames=frames)  # noqa: TRY400
        raise refuse(reason, suspect=(tenant_id, suspect)) from None
    if again:
        _after_outages(partial(_acquit, held.database, tenant_id, suspect))
    log.info(
        "accepted",
        chat_id=parsed.chat.chat_id,
        new=accepted.new,
        duplicates=accepted.duplicates,
        kept_out=accepted.kept_out,
    )
    reasons = {"kept_out": accepted.kept_out, "cut": accepted.cut}
    _after_outages(partial(report_left_out, held.database, tenant_id, parsed.chat.chat_id, reasons, {}))
    if accepted.new:
        wake_up(self.app, "ingest")
    return {"accepted": accepted.new, "duplicates": accepted.duplicates, "kept_out": accepted.kept_out}


def _checked(request: Context, settings: Settings, payload: Any) -> QueuedIngest:
    """Return a payload that may be stored; positional arguments never are. Raises `InvalidInput`."""
    if refused := request.get("refused"):
        raise InvalidInput(refused)
    if request.expires and datetime.fromisoformat(request.expires) < datetime.now(UTC):
        raise InvalidInput(f"it expired at {request.expires}")
    parsed = parse_payload(QueuedIngest, payload, FROM_PLATFORM)
    if not settings.takes_payloads_of(tenant := parsed.tenant or settings.tenant):
        raise InvalidInput(f"BACKSCROLL_PAYLOAD_TENANTS does not name the tenant {tenant}")
    return parsed


def _after_outages(act: Callable[[], T], *, errors: Errors = (Retryable, SettingsError)) -> T:
    """Call `act` once Postgres is available and upgraded: until then nothing else holds the payload.

    `errors` count as outages: any error, if the sender cannot be to blame.
    """
    while True:
        try:
            return act()
        except errors as error:
            log.warning("accept_waits", error=reason_of(error))
            time.sleep(WAIT_SECONDS)


def _begin(database: Database, tenant_id: str, suspect: str) -> int:
    """Count a try of a payload that may kill its process, and return the number of tries."""
    with database.tenant(tenant_id) as connection:
        chats.ensure_tenant(connection, tenant_id)
        return job_admin.count_try(connection, tenant_id, suspect)


def _acquit(database: Database, tenant_id: str, suspect: str) -> None:
    with database.tenant(tenant_id) as connection:
        job_admin.clear_tries(connection, tenant_id, suspect)


def _refuse(
    held: Resources, task: dict[str, Any] | None, reason: str, suspect: tuple[str, str] | None = None
) -> PayloadRefused:
    """Make a dead letter of a payload before it is acknowledged; None: of one that could not be read.

    It is of the default tenant unless it names a valid one that payloads may name.
    """
    payload = task["kwargs"] if task else {}
    try:
        tenant_id = _tenant.validate_python(payload.get("tenant"))
    except ValidationError:
        tenant_id = held.settings.tenant
    if not held.settings.takes_payloads_of(tenant_id):
        tenant_id = held.settings.tenant
    version, messages = payload.get("v", 1), payload.get("messages")
    size = len(messages) if isinstance(messages, list) else int(isinstance(messages, dict))
    named = version if isinstance(version, int) else "unknown"
    error = clean_text(f"version {named}, {size} messages: {reason}" if task else reason)[:ERROR_CHARS]
    whole, text = json.dumps(task), json.dumps(masked_json(task))

    def keep() -> str:
        with held.database.tenant(tenant_id) as connection:
            # known again by all of it, which nobody can guess from this without the tenant's key
            (digest,) = suppression.entries(connection, tenant_id, ("payload", whole if task else reason))
            key = digest.hex()[:KEY_DIGITS]
            job_admin.keep_payload(connection, tenant_id, key, text, error, current_request_id())
            counters.add(connection, tenant_id, {"payloads_refused": 1})
        if suspect is not None:
            _acquit(held.database, *suspect)
        return key

    key = _after_outages(keep, errors=Exception)
    return PayloadRefused(f"refused, and kept: see `backscroll jobs show payload:{key}`")


REASONS = 3
"""Number of different failure reasons that a result names."""


class ThreadRequest(Request):  # type: ignore[misc] # Celery ships no types
    """A task in a thread, which nothing can interrupt: a worker that is stopped lets it finish."""

    def cancel(self, *args: Any, **kwargs: Any) -> None:
        """Interrupt the task if its pool can."""
        with contextlib.suppress(NotImplementedError):
            super().cancel(*args, **kwargs)


def result_of(kind: str, outcome: Outcome) -> str:
    """Summarize a task's outcome for monitoring: `3 summarized, 1 failed: models.example answered 429`.

    Raises `JobsFailed` with the same words if nothing was done and something failed: a result shows one bad row of
    many, and a failed task means that nothing works. It is acknowledged all the same: the jobs are in the database.
    """
    if outcome.waits:
        return f"waits: {outcome.waits}"
    done = outcome.finished - outcome.passed_over
    named = [f"{why} ({count})" if count < outcome.failed else why for why, count in outcome.reasons.items()]
    counts = {KINDS[kind].done: done, "needed nothing": outcome.passed_over}
    summary = ", ".join(f"{count} {what}" for what, count in counts.items() if count)
    if outcome.failed:
        more = f"; and {len(named) - REASONS} other reasons" if len(named) > REASONS else ""
        failed = f"{outcome.failed} failed: {'; '.join(named[:REASONS])}{more}"
        summary = f"{summary}, {failed}" if summary else failed
        if not done:
            raise JobsFailed(summary)
    return summary or "nothing was due"


def _register(kind: str) -> None:
    # expected: the log says why each job failed
    @shared_task(name=f"backscroll.{kind}", bind=True, Request=ThreadRequest, throws=(JobsFailed,))
    def do_jobs(self: Task) -> str:
        result = result_of(kind, resources.run(self.app, kind))
        progress = resources.progress(kind)
        return f"{result}; {progress}" if progress else result


for _kind in KINDS.keys() - {INGEST.name}:
    _register(_kind)


@shared_task(name="backscroll.prune", bind=True)
def prune(self: Task, after: str = "") -> str:
    """Prune the tenants after `after` by the settings; a new task continues with those left when time is up.

    Returns a summary of the deletions. Raises `BackscrollError` at the end if tenants could not be pruned.
    """
    with resources.waiting():
        held = resources.current()
        done = prune_all(held.database, retention_of(held.settings), after=after)
        for tenant_id, pruned in done.rows.items():
            if any(pruned.values()):
                log.info("pruned", tenant=tenant_id, **pruned)
        if done.stopped_at is not None:
            self.apply_async([done.stopped_at], queue=BACKFILL.full_name, retry=False)
        if done.failed:
            first, reason = next(iter(done.failed.items()))
            raise BackscrollError(
                f"{len(done.failed)} tenants could not be pruned, the others were; of {first}: {reason}"
            )
        deleted = sum(sum(pruned.values()) for pruned in done.rows.values())
        return f"{deleted} rows of {len(done.rows)} tenants pruned"
    return "waits: see the log of this worker"


# If more sweeps wait, as after an outage, a sweep is skipped.
MAX_WAITING_SWEEPS = 10
# No kind needs more wake-ups than two for each worker of its queue.
COUNT_UP_TO = max(2 * queue.concurrency * queue.batch for queue in queues.OF_KIND.values())


@shared_task(name=envelope.SWEEP, bind=True, Request=ThreadRequest, send_events=False)
def sweep(self: Task) -> None:
    """Sweep everything once.

    A kind gets wake-ups while it has fewer than two for each worker of its queue: more would only wait, fewer would
    leave workers idle. Wake-ups are not recorded, so no record can be wrong.
    """
    if queues.length(self.app, queues.SWEEP.full_name) > MAX_WAITING_SWEEPS:
        return
    if redated := connection.redate_unacknowledged(self.app):
        log.warning("clock_ahead", tasks=redated, remedy="set the clocks of the workers' machines")
    with resources.waiting():
        _sweep(self.app, resources.current())
    queues.note_sweep(self.app)


def _sweep(app: Celery, held: resources.Resources) -> None:
    swept = pipeline_sweep.sweep(held.database, held.rules, held.settings.job_max_attempts, COUNT_UP_TO)
    # a queue may serve several kinds, and a backfill can wait
    for kind, due in sorted(swept.due.items(), key=lambda item: (item[0] == "backfill", item[0])):
        queue = queues.OF_KIND.get(kind)
        if queue is None:
            log.warning("job_of_unknown_kind", kind=kind, rows=due)
            continue
        if held.settings.switched_off(kind):
            continue
        room = 2 * queue.concurrency - queues.waiting(app, kind)
        queues.wake_up(app, kind, max(0, min(room, math.ceil(due / queues.batch_of(kind, held.settings)))))
    if swept.sessions_closed or swept.given_up:
        log.info("swept", closed=swept.sessions_closed, given_up=swept.given_up)
