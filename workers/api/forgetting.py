"""`/v1/forget`, export and the switches: what people may ask of whoever remembers them."""

from collections.abc import Iterator
from itertools import chain
from typing import Any

from fastapi import APIRouter
from fastapi.responses import StreamingResponse
from pydantic import BaseModel
from pydantic_core import to_json

from pipeline.erasure import export, forget
from pipeline.ingest import chat_moves
from pipeline.operations import lookup
from pipeline.people import suppression
from pipeline.store import chats
from pipeline.store.retry import persistently
from schemas.forgetting import Receipt, Subject
from schemas.messages import ChatIn
from schemas.payloads import ChatAddress, MemorySwitch, NewId, ReceiptAddress, parse_payload
from schemas.users import UserAddress
from workers.api.auth import Tenant
from workers.api.bodies import Body, parse
from workers.api.door import Door, HeldDoor
from workers.api.errors import request_id, responses
from workers.api.openapi import FORGET_BODY, NEW_ID_BODY, SWITCH_BODY
from workers.api.routes import IdRoute

router = APIRouter(tags=["forgetting"], route_class=IdRoute)

LINES = "application/x-ndjson"


class Forgetting(Receipt):
    """A receipt, and whether its forgetting goes on."""

    # why it was given up, and waits for an operator; none: it is done or being done
    given_up: str | None = None


class Begun(Receipt):
    """A receipt of a forgetting that has begun."""

    # false: nothing was ever heard of it; its id may be misspelt, or it is still to come
    seen: bool


class Switched(BaseModel):
    """Whether what is said is remembered."""

    memory: bool
    # false: nothing was heard of the id before; it may be misspelt, or of somebody still to come
    seen: bool
    request_id: str


@router.post(
    "/v1/forget",
    status_code=202,
    summary="Forget a message, a user, a chat or the tenant",
    responses=responses(401, 408, 413, 422, 503),
    openapi_extra=FORGET_BODY,
)
def post_forget(door: HeldDoor, tenant: Tenant, body: Body) -> Begun:
    """Remove something for good, with all that was made of it.

    With the 202 nothing of it that was sent before is stored again; workers delete what there is, and count it on
    the receipt. Ask for the receipt until it has its `finished_at`. A tenant wants its name in `confirm`.
    """
    subject = parse(Subject, body)
    forget.check_confirmed(tenant, subject)
    trace_id = request_id()
    seen = persistently(lambda: _is_seen(door, tenant, subject))
    receipt = persistently(lambda: forget.start(door.database, tenant, subject, trace_id=trace_id))
    door.hinter.hint("forget")
    return Begun(**receipt.model_dump(), seen=seen)


def _is_seen(door: Door, tenant: str, subject: Subject) -> bool:
    """Whether there is, or was, the sender or the chat that is to be forgotten."""
    if subject.sender_id is not None:
        return lookup.seen_users(door.database, tenant, subject.sender_id)
    return subject.chat_id is None or lookup.seen_chat(door.database, tenant, subject.chat_id)


@router.post(
    "/v1/chats/{chat_id}/rename",
    status_code=202,
    summary="Give a chat a new id",
    responses=responses(401, 404, 408, 409, 413, 422, 503),
    openapi_extra=NEW_ID_BODY,
)
def post_rename(door: HeldDoor, tenant: Tenant, chat_id: str, body: Body) -> Receipt:
    """Let all that was said in a chat be of another id, as of a group that became a supergroup.

    A chat that has that id already is united with it. With the 202 what is sent, asked, edited or deleted under the
    former id is so under the new one; workers move what there is, and count it on the receipt. Messages from before
    are called by the former id, a slash and theirs. Sending the same again is harmless.
    """
    address = parse_payload(ChatAddress, {"chat_id": chat_id})
    wanted = parse(NewId, body).to
    trace_id = request_id()
    receipt = persistently(
        lambda: chat_moves.start(door.database, tenant, address.chat_id, wanted, trace_id=trace_id)
    )
    door.hinter.hint("forget")
    return receipt


@router.delete(
    "/v1/chats/{chat_id}",
    status_code=202,
    summary="Remove a chat that is to be imported again",
    responses=responses(401, 422, 503),
)
def delete_chat(door: HeldDoor, tenant: Tenant, chat_id: str) -> Receipt:
    """Remove a chat with all that was made of it, and keep nothing out: what is sent later is stored.

    Workers delete what there is, and count it on the receipt; ask for it until it has its `finished_at`.
    """
    address = parse_payload(ChatAddress, {"chat_id": chat_id})
    trace_id = request_id()
    receipt = persistently(lambda: forget.remove(door.database, tenant, address.chat_id, trace_id=trace_id))
    door.hinter.hint("forget")
    return receipt


@router.get(
    "/v1/forget/{receipt}", summary="Look at a receipt of forgetting", responses=responses(401, 404, 422, 503)
)
def get_receipt(door: HeldDoor, tenant: Tenant, receipt: str) -> Forgetting:
    """How much was forgotten so far, and when all of it was; not whom or what it was about."""
    address = parse_payload(ReceiptAddress, {"receipt": receipt})

    def look() -> Forgetting:
        failed = forget.given_up(door.database, tenant, address.receipt)
        found = forget.get(door.database, tenant, address.receipt)
        return Forgetting(**found.model_dump(), given_up=failed)

    return persistently(look)


@router.get(
    "/v1/users/{user_id}/export",
    summary="Export what is known of a user",
    response_class=StreamingResponse,
    responses={
        200: {"content": {LINES: {}}, "description": "A JSON object on each line."},
        **responses(401, 422, 503),
    },
)
def get_export(door: HeldDoor, tenant: Tenant, user_id: str) -> StreamingResponse:
    """Everything that is known of a user, one JSON object a line, as it is read.

    Each says in `record` what it is: `user`, `message`, `memory`, `chat`, `session` or `query`. A connection
    that breaks off before its end has told only a part.
    """
    address = parse_payload(UserAddress, {"user_id": user_id})

    def begin() -> Iterator[dict[str, Any]]:
        # what goes wrong at the start is still told as a problem
        records = export.of_user(door.database, tenant, address.user_id)
        first = next(records, None)
        return chain([] if first is None else [first], records)

    records = persistently(begin)
    return StreamingResponse((to_json(record) + b"\n" for record in records), media_type=LINES)


@router.put(
    "/v1/chats/{chat_id}/memory",
    summary="Switch a chat's memory on or off",
    responses=responses(401, 408, 413, 422, 503),
    openapi_extra=SWITCH_BODY,
)
def put_chat_memory(door: HeldDoor, tenant: Tenant, chat_id: str, body: Body) -> Switched:
    """While it is off the chat's messages are kept, and nothing is made of them or searched."""
    address = parse_payload(ChatAddress, {"chat_id": chat_id})
    wanted = parse(MemorySwitch, body).memory

    def switch() -> None:
        with door.database.tenant(tenant) as connection:
            chats.ensure(connection, tenant, ChatIn(chat_id=address.chat_id, memory=wanted))

    seen = persistently(lambda: lookup.seen_chat(door.database, tenant, address.chat_id))
    persistently(switch)
    return Switched(memory=wanted, seen=seen, request_id=request_id())


@router.put(
    "/v1/users/{user_id}/memory",
    summary="Switch a user's memory on or off",
    responses=responses(401, 408, 413, 422, 503),
    openapi_extra=SWITCH_BODY,
)
def put_user_memory(door: HeldDoor, tenant: Tenant, user_id: str, body: Body) -> Switched:
    """While it is off nothing new of theirs is kept, in any chat; what there is stays until it is forgotten."""
    address = parse_payload(UserAddress, {"user_id": user_id})
    wanted = parse(MemorySwitch, body).memory
    seen = persistently(lambda: lookup.seen_users(door.database, tenant, address.user_id))
    persistently(lambda: suppression.remember_user(door.database, tenant, address.user_id, remembered=wanted))
    return Switched(memory=wanted, seen=seen, request_id=request_id())
