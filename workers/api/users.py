"""`/v1/users`: which senders are one person."""

from typing import Literal

from fastapi import APIRouter
from pydantic import BaseModel

from pipeline.operations import lookup
from pipeline.people import identities
from pipeline.people.identities import Linked
from pipeline.store.retry import persistently
from schemas.payloads import parse_payload
from schemas.users import MergePayload, User, UserAddress
from workers.api.auth import Tenant
from workers.api.bodies import Body, parse
from workers.api.door import HeldDoor
from workers.api.errors import request_id, responses
from workers.api.openapi import MERGE_BODY
from workers.api.routes import IdRoute

router = APIRouter(tags=["users"], route_class=IdRoute)

# a platform's id may hold slashes
SENDER = "/v1/users/{user_id}/senders/{sender_id:path}"


class LinkChange(BaseModel):
    """What became of a link, and the user as they are now."""

    outcome: Literal["linked", "unlinked", "merged", "unchanged"]
    user: User
    # false: one of the ids was never heard of before; it may be misspelt, or of somebody still to come
    seen: bool
    request_id: str


@router.get("/v1/users/{user_id}", summary="Show a user", responses=responses(401, 422, 503))
def get_user(door: HeldDoor, tenant: Tenant, user_id: str) -> User:
    """The person whom a user's or a sender's id belongs to; somebody unknown is a user of their own."""
    address = parse_payload(UserAddress, {"user_id": user_id})
    return persistently(lambda: identities.show(door.database, tenant, address.user_id))


@router.put(SENDER, summary="Link a sender to a user", responses=responses(401, 422, 503))
def put_sender(door: HeldDoor, tenant: Tenant, user_id: str, sender_id: str) -> LinkChange:
    """Let a sender belong to a user, whomever they belonged to before. Sending the same again is harmless."""
    user, sender = _both(user_id, sender_id)
    # the user may be a name of the bot's own
    seen = persistently(lambda: lookup.seen_users(door.database, tenant, sender))
    return _told(persistently(lambda: identities.link(door.database, tenant, sender, user)), seen)


@router.delete(SENDER, summary="Unlink a sender from a user", responses=responses(401, 422, 503))
def delete_sender(door: HeldDoor, tenant: Tenant, user_id: str, sender_id: str) -> LinkChange:
    """Let a sender be their own user again; what was learned under their id goes with them.

    Sending the same again is harmless.
    """
    user, sender = _both(user_id, sender_id)
    seen = persistently(lambda: lookup.seen_users(door.database, tenant, sender))
    return _told(persistently(lambda: identities.unlink(door.database, tenant, sender, user)), seen)


@router.post(
    "/v1/users/{user_id}/merge",
    summary="Merge a user into another",
    responses=responses(401, 408, 413, 422, 503),
    openapi_extra=MERGE_BODY,
)
def post_merge(door: HeldDoor, tenant: Tenant, user_id: str, body: Body) -> LinkChange:
    """Let a user, with all their senders, be another one; either id names the person then.

    Sending the same again is harmless.
    """
    address = parse_payload(UserAddress, {"user_id": user_id})
    payload = parse(MergePayload, body)
    both = (address.user_id, payload.into)
    seen = persistently(lambda: lookup.seen_users(door.database, tenant, *both))
    return _told(persistently(lambda: identities.merge(door.database, tenant, *both)), seen)


def _both(user_id: str, sender_id: str) -> tuple[str, str]:
    address = parse_payload(UserAddress, {"user_id": user_id, "sender_id": sender_id})
    return address.user_id, str(address.sender_id)


def _told(linked: Linked, seen: bool) -> LinkChange:
    return LinkChange(outcome=linked.outcome, user=linked.user, seen=seen, request_id=request_id())
