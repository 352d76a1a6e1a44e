"""`/v1/forget`, removal, renaming, export and memory switches: what people may ask of their data."""

from collections.abc import Iterator
from itertools import chain

from fastapi import APIRouter
from fastapi.responses import StreamingResponse
from pydantic_core import to_json

from pipeline.erasure import export, forget
from pipeline.ingest import chat_moves
from pipeline.operations import lookup
from pipeline.people import suppression
from pipeline.store.chats import chats
from pipeline.store.chats.chat_languages import DECLARED
from schemas.base import Frozen
from schemas.messages import ChatIn, Id, RowId
from schemas.payloads import LanguageChoice, MemorySwitch, NewId
from schemas.people.forgetting import Receipt, Subject
from workers.api.api_route import ApiRoute
from workers.api.bodies import Body
from workers.api.errors import request_id, responses
from workers.api.state import Api, ApiState, Tenant

router = APIRouter(tags=["forgetting"], route_class=ApiRoute)

LINES = "application/x-ndjson"


class ReceiptStatus(Receipt):
    """A receipt, and whether its job was given up."""

    given_up: str | None = None
    """Why it was given up and waits for an operator. Null: it is done or in progress."""


class StartedReceipt(Receipt):
    """The receipt of a forgetting that has begun."""

    seen: bool
    """False: the id is unknown; it may be misspelt, or of somebody still to come."""


class Switched(Frozen):
    """The state of a memory switch."""

    memory: bool
    seen: bool
    """False: the id is unknown; it may be misspelt, or of somebody still to come."""
    request_id: str


class ChosenLanguage(Frozen):
    """A chat's language."""

    language: str
    """By name; with `auto` what it is until it is detected."""
    declared: bool
    seen: bool
    """False: the id is unknown; it may be misspelt, or of a chat still to come."""
    request_id: str


@router.post("/v1/forget", status_code=202, summary="Forget a message, a user, a chat or the tenant")
def post_forget(api: Api, tenant: Tenant, subject: Body[Subject]) -> StartedReceipt:
    """Remove something for good, with all data derived from it.

    After the 202 nothing of it that was sent before is stored again; workers delete the rest and count it on the
    receipt. Ask for the receipt until it has its `finished_at`. To forget a tenant, `confirm` its name.
    """
    forget.check_confirmed(tenant, subject)
    seen = _is_seen(api, tenant, subject)
    receipt = forget.start(api.database, tenant, subject, trace_id=request_id())
    api.waker.wake_up("forget")
    return StartedReceipt(**receipt.model_dump(), seen=seen)


def _is_seen(api: ApiState, tenant: str, subject: Subject) -> bool:
    """Return whether the sender, message or chat to forget is known or was."""
    if subject.sender_id is not None:
        return lookup.seen_users(api.database, tenant, subject.sender_id)
    if subject.chat_id is not None and subject.external_id is not None:
        return lookup.seen_message(api.database, tenant, subject.chat_id, subject.external_id)
    return subject.chat_id is None or lookup.seen_chat(api.database, tenant, subject.chat_id)


@router.post(
    "/v1/chats/{chat_id}/rename",
    status_code=202,
    summary="Give a chat a new id",
    responses=responses(404, 409),
)
def post_rename(api: Api, tenant: Tenant, chat_id: Id, new: Body[NewId]) -> Receipt:
    """Give a chat another id, such as a group that became a supergroup; merge it with a chat that has that id.

    After the 202 everything sent, asked, edited or deleted under the former id applies to the new one; workers move
    the rest and count it on the receipt. The `external_id` of earlier messages becomes the former chat id, a slash and
    theirs. Sending the same again is harmless.
    """
    receipt = chat_moves.start(api.database, tenant, chat_id, new.to, trace_id=request_id())
    api.waker.wake_up("forget")
    return receipt


@router.delete("/v1/chats/{chat_id}", status_code=202, summary="Remove a chat that is to be imported again")
def delete_chat(api: Api, tenant: Tenant, chat_id: Id) -> Receipt:
    """Remove a chat with all data derived from it; messages that are sent later are stored.

    Workers delete it and count it on the receipt; ask for the receipt until it has its `finished_at`.
    """
    receipt = forget.remove(api.database, tenant, chat_id, trace_id=request_id())
    api.waker.wake_up("forget")
    return receipt


@router.get("/v1/forget/{receipt}", summary="Look at a receipt of forgetting", responses=responses(404))
def get_receipt(api: Api, tenant: Tenant, receipt: RowId) -> ReceiptStatus:
    """Return how much was forgotten so far, and when all of it was; not who or what it was about."""
    failed = forget.given_up(api.database, tenant, receipt)
    return ReceiptStatus(**forget.get(api.database, tenant, receipt).model_dump(), given_up=failed)


@router.get(
    "/v1/users/{user_id}/export",
    summary="Export all data of a user",
    response_class=StreamingResponse,
    responses={
        200: {
            "content": {LINES: {"schema": {"type": "string", "format": "binary"}}},
            "description": "A JSON object on each line.",
        }
    },
)
def get_export(api: Api, tenant: Tenant, user_id: Id) -> StreamingResponse:
    """Stream all data of a user, one JSON object a line.

    `record` names its kind: `user`, `message`, `memory`, `chat`, `session`, `query`, `rollup` or `entity`. A connection
    that breaks off early has delivered only a part.
    """
    records = export.export_user(api.database, tenant, user_id)
    # an error at the start is still answered as a problem
    first = next(records, None)
    lines: Iterator[bytes] = (
        to_json(record) + b"\n" for record in chain([] if first is None else [first], records)
    )
    return StreamingResponse(lines, media_type=LINES)


@router.put("/v1/chats/{chat_id}/memory", summary="Switch a chat's memory on or off")
def put_chat_memory(api: Api, tenant: Tenant, chat_id: Id, switch: Body[MemorySwitch]) -> Switched:
    """Switch a chat's memory. While it is off its messages are stored, but not summarized, embedded or searched."""
    seen = lookup.seen_chat(api.database, tenant, chat_id)
    with api.database.tenant(tenant) as connection:
        chats.ensure(connection, tenant, ChatIn(chat_id=chat_id, memory=switch.memory))
    return Switched(memory=switch.memory, seen=seen, request_id=request_id())


@router.put("/v1/chats/{chat_id}/language", summary="Say a chat's language", tags=["chats"])
def put_chat_language(api: Api, tenant: Tenant, chat_id: Id, chosen: Body[LanguageChoice]) -> ChosenLanguage:
    """Declare a chat's language, or have it detected with `auto`; workers index its words anew."""
    seen = lookup.seen_chat(api.database, tenant, chat_id)
    with api.database.tenant(tenant) as connection:
        chat = chats.ensure(connection, tenant, ChatIn(chat_id=chat_id, language=chosen.language))
    api.waker.wake_up("language")
    return ChosenLanguage(
        language=chat.language, declared=chat.language_by == DECLARED, seen=seen, request_id=request_id()
    )


@router.put("/v1/users/{user_id}/memory", summary="Switch a user's memory on or off")
def put_user_memory(api: Api, tenant: Tenant, user_id: Id, switch: Body[MemorySwitch]) -> Switched:
    """Switch a user's memory. While it is off none of their new messages are stored; earlier ones stay."""
    seen = lookup.seen_users(api.database, tenant, user_id)
    suppression.remember_user(api.database, tenant, user_id, remembered=switch.memory)
    return Switched(memory=switch.memory, seen=seen, request_id=request_id())
