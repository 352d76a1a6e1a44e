"""`POST /v1/messages`: messages in; answered when they are committed, and not before."""

from fastapi import APIRouter
from pydantic import BaseModel

from pipeline import ingest
from pipeline.ingest import Accepted
from schemas.errors import InvalidInput
from schemas.payloads import IngestPayload
from workers.web.auth import Tenant
from workers.web.bodies import Body, parse
from workers.web.door import HeldDoor, persistently
from workers.web.errors import request_id, responses
from workers.web.openapi import MESSAGES_BODY

router = APIRouter(tags=["messages"])


class Receipt(BaseModel):
    """What became of the messages."""

    # stored now
    accepted: int
    # known already by their external_id; nothing was done
    duplicates: int
    request_id: str


@router.post(
    "/v1/messages",
    status_code=202,
    summary="Hand over messages of a chat",
    responses=responses(401, 408, 413, 422, 503),
    openapi_extra=MESSAGES_BODY,
)
def post_messages(door: HeldDoor, tenant: Tenant, body: Body) -> Receipt:
    """Store one message or many of one chat, each once.

    With the 202 they are durable and found by keyword; sessions, summaries and vectors follow. Sending the
    same again is harmless: a message is known by its chat and `external_id`.
    """
    payload = parse(IngestPayload, body)
    if payload.tenant not in (None, tenant):
        raise InvalidInput(f"tenant: the API key belongs to {tenant}; leave it out", field="tenant")
    door.backlog.require_room()
    trace_id = request_id()

    def accept() -> Accepted:
        return ingest.accept(door.database, tenant, payload.chat, payload.messages, trace_id=trace_id)

    accepted = persistently(accept)
    # For duplicates too: whoever sent them first may have died before the hint.
    door.hinter.hint("ingest")
    return Receipt(accepted=accepted.new, duplicates=accepted.duplicates, request_id=trace_id)
