"""`backscroll.ingest`: accept the messages of a payload, or place what has been accepted."""

import time
import traceback
from collections.abc import Sequence
from typing import Any

import structlog
from celery import Task, shared_task
from celery.worker.request import Request
from kombu.exceptions import OperationalError

from pipeline.ingest import accept as pipeline_ingest
from schemas.errors import InvalidInput, Retryable, SettingsError
from schemas.payloads import QueuedIngest, parse_payload
from workers import letters, queues, resources, tries
from workers.signals import current_request_id

log = structlog.get_logger(__name__)

WAIT_SECONDS = 2.0
HIDDEN = {"argsrepr": "()", "kwargsrepr": "{…}"}
"""What events, and so Flower, show of a payload, which holds what people wrote."""


class PayloadRequest(Request):  # type: ignore[misc] # Celery ships no types
    """A payload as its worker tells of it: without its arguments, whatever the sender says of them."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._argsrepr, self._kwargsrepr = HIDDEN["argsrepr"], HIDDEN["kwargsrepr"]

    def info(self, safe: bool = False) -> dict[str, Any]:
        """What `inspect active` shows."""
        told: dict[str, Any] = super().info(safe=True)
        return told


# A payload is not owed in the database before it is accepted: this task alone goes back when its worker dies.
@shared_task(name="backscroll.ingest", bind=True, reject_on_worker_lost=True, Request=PayloadRequest)
def ingest(self: Task, *args: Any, **payload: Any) -> None:
    """With messages: store them, waiting while Postgres is away or not upgraded. Without: place what waits."""
    if not args and not payload:
        resources.run(self.app, "ingest", resources.current().placer)
        return
    try:
        # positional ones are refused, and go the same way
        parsed = parse_payload(QueuedIngest, args or payload)
    except InvalidInput as error:
        log.warning("payload_refused", error=str(error), queue=queues.DEAD)
        _lay_aside(self, args, payload, str(error))
        return
    held = resources.current()
    while True:
        if tries.begin(self.app, self.request.id) > held.settings.job_max_attempts:
            log.error("payload_kills", tries=held.settings.job_max_attempts, queue=queues.DEAD)
            _lay_aside(self, args, payload, f"its process ended {held.settings.job_max_attempts} times")
            return
        try:
            accepted = pipeline_ingest.accept(
                held.database,
                parsed.tenant or held.settings.tenant,
                parsed.chat,
                parsed.messages,
                trace_id=current_request_id(),
            )
            break
        except (Retryable, SettingsError) as error:
            # its sender is not to blame
            log.warning("accept_waits", error=str(error))
            tries.end(self.app, self.request.id)
            time.sleep(WAIT_SECONDS)
        except Exception as error:  # noqa: BLE001 - a task that fails is acknowledged, and its messages would be lost
            # Neither the whole error nor its usual traceback: Postgres quotes the row that it does not take.
            told = f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
            log.error(  # noqa: TRY400
                "accept_failed",
                error=told,
                frames=traceback.format_tb(error.__traceback__),
                queue=queues.DEAD,
            )
            _lay_aside(self, args, payload, told)
            return
    tries.end(self.app, self.request.id)
    log.info(
        "accepted",
        chat_id=parsed.chat.chat_id,
        new=accepted.new,
        duplicates=accepted.duplicates,
        kept_out=accepted.kept_out,
    )
    if accepted.new:
        queues.hint(self.app, "ingest")


def _lay_aside(task: Task, args: Sequence[Any], payload: dict[str, Any], reason: str) -> None:
    """Put a payload among the dead letters as it came; it is not acknowledged before it lies there."""
    options = HIDDEN | {"queue": queues.DEAD, "headers": letters.refusal(reason)}
    while True:
        try:
            task.app.send_task(task.name, args=args, kwargs=payload, **options)
        except OperationalError as error:
            log.warning("dead_letter_waits", error=str(error))
            time.sleep(WAIT_SECONDS)
        else:
            return
