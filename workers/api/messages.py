"""`/v1/messages`: messages in, edited and deleted; answered when that is committed, and not before."""

from typing import Literal

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel
from starlette.concurrency import run_in_threadpool

from pipeline.erasure import edits
from pipeline.erasure.edits import Changed
from pipeline.ingest import accept
from pipeline.ingest.policy import Rules
from pipeline.store.retry import persistently
from schemas.errors import InvalidInput
from schemas.payloads import EditPayload, IngestPayload, MessageAddress, parse_payload
from workers.api.auth import SECURED, Tenant, authorize
from workers.api.bodies import Body, parse, read
from workers.api.door import Door, HeldDoor, door_of
from workers.api.errors import request_id, responses
from workers.api.openapi import EDIT_BODY, MESSAGES_BODY
from workers.api.routes import IdRoute

router = APIRouter(tags=["messages"], route_class=IdRoute)


class Receipt(BaseModel):
    """What became of the messages."""

    # stored now
    accepted: int
    # known already by their external_id; nothing was done
    duplicates: int
    # forgotten, or of somebody who is not to be remembered; nothing was done
    kept_out: int
    request_id: str


class Change(BaseModel):
    """What became of an edit or a deletion."""

    # `pending`: kept until the message comes; `kept_out`: it was deleted, or is of somebody who is not remembered
    outcome: Literal["edited", "unchanged", "pending", "deleted", "kept_out"]
    request_id: str


# Without dependencies: FastAPI's way to find them would be a good part of what a message costs here.
@router.post(
    "/v1/messages",
    status_code=202,
    response_model=Receipt,
    summary="Hand over messages of a chat",
    responses=responses(401, 408, 413, 422, 503),
    openapi_extra=MESSAGES_BODY | SECURED,
)
async def post_messages(request: Request) -> Response:
    """Store one message or many of one chat, each once.

    With the 202 they are durable and found by keyword; sessions, summaries and vectors follow. Sending the
    same again is harmless: a message is known by its chat and `external_id`.
    """
    tenant = await authorize(request)
    body = await read(request)
    receipt = await run_in_threadpool(_accept, door_of(request), tenant, body)
    return Response(receipt.model_dump_json(), 202, media_type="application/json")


def _accept(door: Door, tenant: str, body: bytes) -> Receipt:
    payload = parse(IngestPayload, body)
    if payload.tenant not in (None, tenant):
        raise InvalidInput(f"tenant: the API key belongs to {tenant}; leave it out", field="tenant")
    door.backlog.require_room()
    trace_id = request_id()
    accepted = accept.accept(door.database, tenant, payload.chat, payload.messages, trace_id=trace_id)
    # For duplicates too: whoever sent them first may have died before the hint.
    door.hinter.hint("ingest")
    return Receipt(
        accepted=accepted.new,
        duplicates=accepted.duplicates,
        kept_out=accepted.kept_out,
        request_id=trace_id,
    )


# a platform's id may hold slashes: those of a chat's id are sent as %2F
ADDRESS = "/v1/messages/{chat_id}/{external_id:path}"


@router.patch(
    ADDRESS,
    status_code=202,
    summary="Edit a message",
    responses=responses(401, 408, 413, 422, 503),
    openapi_extra=EDIT_BODY,
)
def patch_message(door: HeldDoor, tenant: Tenant, chat_id: str, external_id: str, body: Body) -> Change:
    """Give a message its new text, by its platform's id; of several edits the newest `edited_at` wins.

    May come before the message itself, which then takes this text. What was made of the old text is gone with
    the 202; sending the same again is harmless.
    """
    address = parse_payload(MessageAddress, {"chat_id": chat_id, "external_id": external_id})
    payload = parse(EditPayload, body)
    trace_id = request_id()

    def edit() -> Changed:
        return edits.edit(
            door.database,
            tenant,
            address.chat_id,
            address.external_id,
            payload.content,
            payload.edited_at,
            Rules.of(door.settings),
            trace_id=trace_id,
        )

    return _told(door, persistently(edit), trace_id)


@router.delete(ADDRESS, summary="Delete a message", responses=responses(401, 422, 503))
def delete_message(door: HeldDoor, tenant: Tenant, chat_id: str, external_id: str) -> Change:
    """Delete a message for good, by its platform's id, with all that was made of it.

    May come before the message itself, which then is not stored, however often it is sent. Sending the same
    again is harmless.
    """
    address = parse_payload(MessageAddress, {"chat_id": chat_id, "external_id": external_id})
    trace_id = request_id()

    def delete() -> Changed:
        rules = Rules.of(door.settings)
        return edits.delete(
            door.database, tenant, address.chat_id, address.external_id, rules, trace_id=trace_id
        )

    return _told(door, persistently(delete), trace_id)


def _told(door: HeldDoor, changed: Changed, trace_id: str) -> Change:
    """Hint at what is owed now, and answer."""
    for kind in sorted(changed.follows):
        door.hinter.hint(kind)
    return Change(outcome=changed.outcome, request_id=trace_id)
