"""`backscroll.ingest`: accept the messages of a payload, or place accepted messages."""

import time
import traceback
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from hashlib import sha256
from typing import Any, TypeVar

import structlog
from celery import Task, shared_task
from celery.app.task import Context
from celery.worker.request import Request
from celery.worker.state import revoked
from kombu.utils import json
from pydantic import TypeAdapter, ValidationError

from pipeline.ingest import accept as pipeline_ingest
from pipeline.ingest import left_out
from pipeline.ingest.pruned import MessageLimits
from pipeline.jobs.failures import reason_of
from pipeline.store.chats import chats
from pipeline.store.connections.database import Database
from pipeline.store.jobs import quarantine
from pipeline.store.operations import counters
from schemas.base import FROM_PLATFORM
from schemas.errors import InvalidInput, JobsFailed, PayloadRefused, Retryable, SettingsError
from schemas.messages import clean_text
from schemas.payloads import QueuedIngest, TenantId, parse_payload
from schemas.settings import Settings
from workers import resources
from workers.queues import wake_up
from workers.resources import Resources
from workers.signals import current_request_id
from workers.tasks.jobs import result_of

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
        reason = str(error) if isinstance(error, InvalidInput) else type(error).__name__
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
    _after_outages(partial(left_out.report, held.database, tenant_id, parsed.chat.chat_id, reasons, {}))
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
        return quarantine.count_try(connection, tenant_id, suspect)


def _acquit(database: Database, tenant_id: str, suspect: str) -> None:
    with database.tenant(tenant_id) as connection:
        quarantine.clear_tries(connection, tenant_id, suspect)


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
    text = json.dumps(task)
    key = sha256((text if task else reason).encode()).hexdigest()[:KEY_DIGITS]

    def keep() -> None:
        with held.database.tenant(tenant_id) as connection:
            quarantine.keep_payload(connection, tenant_id, key, text, error, current_request_id())
            counters.add(connection, tenant_id, {"payloads_refused": 1})
        if suspect is not None:
            _acquit(held.database, *suspect)

    _after_outages(keep, errors=Exception)
    return PayloadRefused(f"refused, and kept: see `backscroll jobs show payload:{key}`")
