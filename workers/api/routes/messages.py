"""`/v1/messages`: messages stored, edited and deleted, each committed before the answer."""

from typing import Literal

from fastapi import APIRouter, Request, Response

from pipeline.erasure import edits
from pipeline.erasure.edits import Changed
from pipeline.ingest import accept
from pipeline.ingest.accept import Accepted, MessageLimits
from pipeline.ingest.sessionize import SessionPolicy
from schemas.base import Frozen
from schemas.errors import InvalidInput
from schemas.messages import Id
from schemas.payloads import EditPayload, IngestPayload
from workers.api.admission import Caller, caller_of, take_messages
from workers.api.api_route import ApiRoute, DirectRoute
from workers.api.bodies import LOOP_BYTES, Body, in_thread, parse, received
from workers.api.openapi import body_of
from workers.api.problems import request_id, responses
from workers.api.state import Api, ApiState, Tenant, state_of

router = APIRouter(tags=["messages"], route_class=ApiRoute)


class MessagesReceipt(Frozen):
    """The result of handing over messages."""

    accepted: int
    """The number of messages stored."""
    duplicates: int
    """Those that were there already, by their external_id."""
    kept_out: int
    """Those that were not stored: forgotten, pruned, or of a sender who is not to be remembered."""
    request_id: str


class ChangeReceipt(Frozen):
    """The result of an edit or a deletion."""

    outcome: Literal["edited", "unchanged", "pending", "deleted", "kept_out"]
    """`pending`: kept until the message comes; `kept_out`: it was deleted, or its sender is not remembered. Of a
    deletion, `kept_out`: no such message is stored; it was deleted before, or is unknown and dropped if it comes."""
    request_id: str


async def post_messages(request: Request) -> Response:
    """Store one message or many of one chat, each once.

    With the 202 they are durable and found by keyword; sessions, summaries and vectors follow. Sending the
    same again is harmless: a message is known by its chat and `external_id`.
    """
    caller = caller_of(request)
    api = state_of(request)
    async with received(request) as body:
        receipt = await _try_accept(api, caller, body) if len(body) <= LOOP_BYTES else None
        if receipt is None:
            receipt = await in_thread(request, body, _accept, api, caller, body)
    return Response(receipt.model_dump_json(), 202, media_type="application/json")


# A DirectRoute, as FastAPI's dependencies would be a good part of a message's cost here.
router.add_api_route(
    "/v1/messages",
    post_messages,
    methods=["POST"],
    status_code=202,
    response_model=MessagesReceipt,
    summary="Hand over messages of a chat",
    responses=responses(408, 413, 422),
    openapi_extra=body_of(IngestPayload),
    route_class_override=DirectRoute,
)


async def _try_accept(api: ApiState, caller: Caller, body: bytes) -> MessagesReceipt | None:
    """Accept a small body in the event loop, without blocking it; None if a thread must do it."""
    if caller.key.messages_per_day is not None or not api.backlog.is_counted(caller.key.tenant):
        return None
    payload = _payload(caller, body)
    api.backlog.require_room(caller.tenant)
    accepted = await accept.try_accept(
        api.database,
        caller.tenant,
        payload.chat,
        payload.messages,
        limits=MessageLimits.of(api.settings),
        trace_id=request_id(),
    )
    return None if accepted is None else _accepted(api, accepted)


def _accept(api: ApiState, caller: Caller, body: bytes) -> MessagesReceipt:
    payload = _payload(caller, body)
    api.backlog.require_room(caller.tenant)
    take_messages(api.database, caller.key, len(payload.messages))
    accepted = accept.accept(
        api.database,
        caller.tenant,
        payload.chat,
        payload.messages,
        limits=MessageLimits.of(api.settings),
        trace_id=request_id(),
    )
    accept.report_left_out(
        api.database, caller.tenant, payload.chat.chat_id, {"kept_out": accepted.kept_out}, {}
    )
    return _accepted(api, accepted)


def _payload(caller: Caller, body: bytes) -> IngestPayload:
    payload = parse(IngestPayload, body)
    caller.require_chats([payload.chat.chat_id])
    if payload.tenant not in (None, caller.tenant):
        raise InvalidInput(f"tenant: the API key belongs to {caller.tenant}; leave it out", field="tenant")
    return payload


def _accepted(api: ApiState, accepted: Accepted) -> MessagesReceipt:
    # For duplicates too: their first sender's process may have died before the wake-up.
    api.waker.wake_up("ingest")
    return MessagesReceipt(
        accepted=accepted.new,
        duplicates=accepted.duplicates,
        kept_out=accepted.kept_out,
        request_id=request_id(),
    )


# a platform's id may contain slashes: those of a chat's id are sent as %2F
ADDRESS = "/v1/messages/{chat_id}/{external_id:path}"


@router.patch(ADDRESS, status_code=202, summary="Edit a message")
def patch_message(
    api: Api, tenant: Tenant, chat_id: Id, external_id: Id, payload: Body[EditPayload]
) -> ChangeReceipt:
    """Give a message its new text, by its platform's id; of several edits the newest `edited_at` wins.

    An edit may come before the message itself, which then takes this text. With the 202, all data derived from the old
    text is gone. Sending the same again is harmless.
    """
    changed = edits.edit(
        api.database,
        tenant,
        edits.NewText(chat_id, external_id, payload.content, payload.edited_at),
        SessionPolicy.of(api.settings),
        trace_id=request_id(),
    )
    accept.report_left_out(api.database, tenant, chat_id, {"kept_out": changed.outcome == "kept_out"}, {})
    return _receipt(api, changed)


@router.delete(ADDRESS, summary="Delete a message")
def delete_message(api: Api, tenant: Tenant, chat_id: Id, external_id: Id) -> ChangeReceipt:
    """Delete a message for good, by its platform's id, with all data derived from it.

    A deletion may come before the message itself, which then is not stored, however often it is sent. Sending the
    same again is harmless, and answered with `kept_out`.
    """
    rules = SessionPolicy.of(api.settings)
    changed = edits.delete(api.database, tenant, chat_id, external_id, rules, trace_id=request_id())
    return _receipt(api, changed)


def _receipt(api: ApiState, changed: Changed) -> ChangeReceipt:
    """Wake the workers of the jobs that follow, and answer."""
    for kind in sorted(changed.follows):
        api.waker.wake_up(kind)
    return ChangeReceipt(outcome=changed.outcome, request_id=request_id())
