"""`backscroll.ingest`: accept the messages of a payload, or place what has been accepted."""

import time
from typing import Any

import structlog
from celery import Task, shared_task

from pipeline import ingest as pipeline_ingest
from schemas.errors import InvalidInput, Retryable
from schemas.payloads import IngestPayload, parse_payload
from workers import queues, resources

log = structlog.get_logger(__name__)

WAIT_SECONDS = 2.0


# A payload is not owed in the database before it is accepted: this task alone goes back when its worker dies.
@shared_task(name="backscroll.ingest", bind=True, reject_on_worker_lost=True, argsrepr="()", kwargsrepr="{…}")
def ingest(self: Task, **payload: Any) -> None:
    """With messages: store them, waiting while Postgres is away. Without: place what waits."""
    if "messages" not in payload:
        held = resources.current()
        resources.run(self.app, "ingest", held.placer)
        return
    try:
        parsed = parse_payload(IngestPayload, payload)
    except InvalidInput as error:
        log.warning("payload_refused", error=str(error), queue=queues.DEAD)
        self.app.send_task(self.name, kwargs=payload, queue=queues.DEAD)
        return
    while True:
        try:
            held = resources.current()
            accepted = pipeline_ingest.accept(
                held.database,
                parsed.tenant or held.settings.tenant,
                parsed.chat,
                parsed.messages,
                trace_id=structlog.contextvars.get_contextvars().get("request_id"),
            )
            break
        except Retryable as error:
            log.warning("accept_waits", error=str(error))
            time.sleep(WAIT_SECONDS)
    log.info("accepted", chat_id=parsed.chat.chat_id, new=accepted.new, duplicates=accepted.duplicates)
    if accepted.new:
        queues.hint(self.app, "ingest")
