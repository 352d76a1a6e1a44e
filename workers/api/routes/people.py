"""`/v1/users`, members, `/v1/forget`, export and memory switches: who is who, and what people may ask of their data."""

from collections.abc import Iterator
from itertools import chain
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from fastapi.responses import StreamingResponse
from pydantic_core import to_json

from pipeline.erasure import forget
from pipeline.ingest import chat_moves
from pipeline.memories import entities
from pipeline.operations import lookup, transfer
from pipeline.people import identities, suppression
from pipeline.people.identities import Linked
from pipeline.store.chats import chats
from pipeline.store.chats.chat_languages import DECLARED
from schemas.base import Frozen
from schemas.messages import ChatIn, Id, RowId
from schemas.payloads import LanguageChoice, MemorySwitch, NewId
from schemas.people import (
    ExportFilter,
    Members,
    MembersPayload,
    MergePayload,
    Receipt,
    Subject,
    User,
    UserFilter,
    UserPage,
)
from workers.api.api_route import ApiRoute
from workers.api.bodies import Body
from workers.api.problems import request_id, responses
from workers.api.state import Api, ApiState, Tenant

router = APIRouter(tags=["users"], route_class=ApiRoute)

# a platform's id may contain slashes
SENDER = "/v1/users/{user_id}/senders/{sender_id:path}"
MEMBERS = "/v1/chats/{chat_id}/members"


class LinkChange(Frozen):
    """The result of a link or merge, and the user as they are now."""

    outcome: Literal["linked", "unlinked", "merged", "unchanged"]
    user: User
    seen: bool
    """False: one of the ids is unknown; it may be misspelt, or of somebody still to come."""
    request_id: str


@router.get("/v1/users/{user_id}", summary="Show a user", responses=responses(404))
def get_user(api: Api, tenant: Tenant, user_id: Id, wanted: Annotated[UserFilter, Query()]) -> UserPage:
    """Return the person to whom a user's or a sender's id belongs, with what is known of them.

    `current` is what is believed now, `earlier` what was superseded or retracted, each the latest first, `limit` at a
    time; `after` is the last `id` of the previous page. With `chat_id` only what may be shown in that chat when they
    ask there: then only what may be shown there supersedes. An unknown id is a user of its own.
    """
    return entities.user_page(api.database, tenant, user_id, wanted)


@router.put(SENDER, summary="Link a sender to a user")
def put_sender(api: Api, tenant: Tenant, user_id: Id, sender_id: Id) -> LinkChange:
    """Link a sender to a user, whatever user it was linked to before. Sending the same again is harmless."""
    # the user may be a name of the bot's own
    seen = lookup.seen_users(api.database, tenant, sender_id)
    return _change(identities.link(api.database, tenant, sender_id, user_id), seen)


@router.delete(SENDER, summary="Unlink a sender from a user")
def delete_sender(api: Api, tenant: Tenant, user_id: Id, sender_id: Id) -> LinkChange:
    """Make a sender their own user again, with everything learned under their id.

    Sending the same again is harmless.
    """
    seen = lookup.seen_users(api.database, tenant, sender_id)
    return _change(identities.unlink(api.database, tenant, sender_id, user_id), seen)


@router.post("/v1/users/{user_id}/merge", summary="Merge a user into another")
def post_merge(api: Api, tenant: Tenant, user_id: Id, target: Body[MergePayload]) -> LinkChange:
    """Merge a user, with all their senders, into another one; either id then names the person.

    Sending the same again is harmless.
    """
    seen = lookup.seen_users(api.database, tenant, user_id, target.into)
    return _change(identities.merge(api.database, tenant, user_id, target.into), seen)


@router.get(MEMBERS, summary="Show who is in a chat", tags=["chats"], responses=responses(404))
def get_members(api: Api, tenant: Tenant, chat_id: Id) -> Members:
    """Return everybody who has spoken in the chat or was named as a member."""
    return identities.show_members(api.database, tenant, chat_id)


@router.put(MEMBERS, summary="Say who is in a chat", tags=["chats"], responses=responses(404))
def put_members(api: Api, tenant: Tenant, chat_id: Id, payload: Body[MembersPayload]) -> Members:
    """Set all members of a chat, without bots; those who speak later are added.

    Worth it where many read and few speak: what was learned elsewhere is shown only if all members know it.
    """
    return identities.set_members(api.database, tenant, chat_id, payload.members)


def _change(linked: Linked, seen: bool) -> LinkChange:
    return LinkChange(outcome=linked.outcome, user=linked.user, seen=seen, request_id=request_id())


forgetting_router = APIRouter(tags=["forgetting"], route_class=ApiRoute)

LINES = "application/x-ndjson"
_STREAM: dict[int | str, dict[str, Any]] = {
    200: {
        "content": {LINES: {"schema": {"type": "string", "format": "binary"}}},
        "description": "A JSON object on each line.",
    }
}


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


@forgetting_router.post(
    "/v1/forget", status_code=202, summary="Forget a message, a user, a chat or the tenant"
)
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


@forgetting_router.post(
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


@forgetting_router.delete(
    "/v1/chats/{chat_id}", status_code=202, summary="Remove a chat that is to be imported again"
)
def delete_chat(api: Api, tenant: Tenant, chat_id: Id) -> Receipt:
    """Remove a chat with all data derived from it; messages that are sent later are stored.

    Workers delete it and count it on the receipt; ask for the receipt until it has its `finished_at`.
    """
    receipt = forget.remove(api.database, tenant, chat_id, trace_id=request_id())
    api.waker.wake_up("forget")
    return receipt


@forgetting_router.get(
    "/v1/forget/{receipt}", summary="Look at a receipt of forgetting", responses=responses(404)
)
def get_receipt(api: Api, tenant: Tenant, receipt: RowId) -> ReceiptStatus:
    """Return how much was forgotten so far, and when all of it was; not who or what it was about."""
    failed = forget.given_up(api.database, tenant, receipt)
    return ReceiptStatus(**forget.get(api.database, tenant, receipt).model_dump(), given_up=failed)


@forgetting_router.get(
    "/v1/users/{user_id}/export",
    summary="Export all data of a user",
    response_class=StreamingResponse,
    responses=_STREAM,
)
def get_export(api: Api, tenant: Tenant, user_id: Id) -> StreamingResponse:
    """Stream all data of a user, one JSON object a line.

    `record` names its kind: `user`, `message`, `memory`, `chat`, `session`, `query`, `rollup` or `entity`. A connection
    that breaks off early has delivered only a part.
    """
    return _streamed(transfer.export_user(api.database, tenant, user_id))


def _streamed(records: Iterator[dict[str, Any]]) -> StreamingResponse:
    # an error at the start is still answered as a problem
    first = next(records, None)
    lines: Iterator[bytes] = (
        to_json(record) + b"\n" for record in chain([] if first is None else [first], records)
    )
    return StreamingResponse(lines, media_type=LINES)


@forgetting_router.get(
    "/v1/export",
    summary="Export a tenant or a chat",
    response_class=StreamingResponse,
    responses=responses(404) | _STREAM,
)
def get_tenant_export(
    api: Api, tenant: Tenant, wanted: Annotated[ExportFilter, Query()]
) -> StreamingResponse:
    """Stream all of the tenant, or of `chat_id`, one JSON object a line, for `backscroll import` elsewhere.

    The last line has `of` `end`. A connection that breaks off early has delivered a part: go on `after` the `at` of the
    last whole line. What was forgotten is not in it; the list that keeps it out is, with its key: keep it secret.
    """
    return _streamed(transfer.export(api.database, tenant, wanted.chat_id, wanted.after))


@forgetting_router.put("/v1/chats/{chat_id}/memory", summary="Switch a chat's memory on or off")
def put_chat_memory(api: Api, tenant: Tenant, chat_id: Id, switch: Body[MemorySwitch]) -> Switched:
    """Switch a chat's memory. While it is off its messages are stored, but not summarized, embedded or searched."""
    seen = lookup.seen_chat(api.database, tenant, chat_id)
    with api.database.tenant(tenant) as connection:
        chats.ensure(connection, tenant, ChatIn(chat_id=chat_id, memory=switch.memory))
    return Switched(memory=switch.memory, seen=seen, request_id=request_id())


@forgetting_router.put("/v1/chats/{chat_id}/language", summary="Say a chat's language", tags=["chats"])
def put_chat_language(api: Api, tenant: Tenant, chat_id: Id, chosen: Body[LanguageChoice]) -> ChosenLanguage:
    """Declare a chat's language, or have it detected with `auto`; workers index its words anew."""
    seen = lookup.seen_chat(api.database, tenant, chat_id)
    with api.database.tenant(tenant) as connection:
        chat = chats.ensure(connection, tenant, ChatIn(chat_id=chat_id, language=chosen.language))
    api.waker.wake_up("language")
    return ChosenLanguage(
        language=chat.language, declared=chat.language_by == DECLARED, seen=seen, request_id=request_id()
    )


@forgetting_router.put("/v1/users/{user_id}/memory", summary="Switch a user's memory on or off")
def put_user_memory(api: Api, tenant: Tenant, user_id: Id, switch: Body[MemorySwitch]) -> Switched:
    """Switch a user's memory. While it is off none of their new messages are stored; earlier ones stay."""
    seen = lookup.seen_users(api.database, tenant, user_id)
    suppression.remember_user(api.database, tenant, user_id, remembered=switch.memory)
    return Switched(memory=switch.memory, seen=seen, request_id=request_id())
