"""`backscroll.ingest`: accept the messages of a payload, or place accepted messages."""

import json
import re
import time
import traceback
from collections.abc import Callable
from functools import partial
from hashlib import sha256
from typing import Any, TypeVar

import structlog
from celery import Task, shared_task
from celery.worker.request import Request
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
from workers import resources
from workers.queues import wake_up
from workers.signals import current_request_id
from workers.tasks.jobs import result_of

log = structlog.get_logger(__name__)

T = TypeVar("T")
Errors = type[Exception] | tuple[type[Exception], ...]

WAIT_SECONDS = 2.0
ERROR_CHARS = 500
KEY_DIGITS = 16
PLATFORM_ID = re.compile(r"[a-z]+:\S{1,100}")
_tenant = TypeAdapter(TenantId)


class PayloadRequest(Request):  # type: ignore[misc] # Celery ships no types
    """A payload's task, of which its worker reports only an outline, whatever the sender describes as its arguments."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._argsrepr = f"({len(self.args)} arguments)" if self.args else "()"
        self._kwargsrepr = outline(self.kwargs)

    def info(self, safe: bool = False) -> dict[str, Any]:
        """Return what `inspect active` shows."""
        shown: dict[str, Any] = super().info(safe=True)
        return shown


def outline(payload: Any) -> str:
    """Describe a payload without people's words, or texts in place of an id.

    >>> outline({"v": 1, "chat": {"chat_id": "telegram:-100", "title": "Мы"}, "messages": [{}, {}]})
    "{'v': 1, 'chat': 'telegram:-100', 'messages': 2}"
    >>> outline({"chat": "Кто там?", "messages": "Я", "text": "Это я"})
    "{'chat': '…', 'messages': '…'}"
    """
    shown: dict[str, Any] = {}
    for name, value in payload.items() if isinstance(payload, dict) else ():
        if name == "v":
            shown[name] = value if isinstance(value, int) else "…"
        elif name == "chat":
            chat_id = value.get("chat_id") if isinstance(value, dict) else value
            shown[name] = chat_id if isinstance(chat_id, str) and PLATFORM_ID.fullmatch(chat_id) else "…"
        elif name == "messages":
            shown[name] = len(value) if isinstance(value, list) else "…"
    return str(shown)


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
    if not args and not payload:
        return result_of("ingest", resources.run(self.app, "ingest"))
    held = _after_outages(resources.current)
    refuse = partial(_refuse, held.database, held.settings.tenant, {"args": args, "kwargs": payload})
    try:
        # positional arguments are always refused
        parsed = parse_payload(QueuedIngest, args or payload, FROM_PLATFORM)
    except InvalidInput as error:
        log.warning("payload_refused", error=str(error))
        raise refuse(str(error)) from None
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
    database: Database,
    default_tenant: str,
    task: dict[str, Any],
    reason: str,
    suspect: tuple[str, str] | None = None,
) -> PayloadRefused:
    """Make a dead letter of a payload before it is acknowledged, of `default_tenant` if it names no valid tenant."""
    payload = task["kwargs"]
    try:
        tenant_id = _tenant.validate_python(payload.get("tenant"))
    except ValidationError:
        tenant_id = default_tenant
    version, messages = payload.get("v", 1), payload.get("messages")
    size = len(messages) if isinstance(messages, list) else int(isinstance(messages, dict))
    named = version if isinstance(version, int) else "unknown"
    error = clean_text(f"version {named}, {size} messages: {reason}")[:ERROR_CHARS]
    text = json.dumps(task)
    key = sha256(text.encode()).hexdigest()[:KEY_DIGITS]

    def keep() -> None:
        with database.tenant(tenant_id) as connection:
            quarantine.keep_payload(connection, tenant_id, key, text, error, current_request_id())
            counters.add(connection, tenant_id, {"payloads_refused": 1})
        if suspect is not None:
            _acquit(database, *suspect)

    _after_outages(keep, errors=Exception)
    return PayloadRefused(f"refused, and kept: see `backscroll jobs show payload:{key}`")
