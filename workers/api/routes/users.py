"""`/v1/users` and `/v1/chats/{chat_id}/members`: which senders are one person, and who is in a chat."""

from typing import Annotated, Literal

from fastapi import APIRouter, Query

from pipeline.memories import pages
from pipeline.operations import lookup
from pipeline.people import identities, membership
from pipeline.people.identities import Linked
from schemas.base import Frozen
from schemas.messages import Id
from schemas.people.user_pages import UserFilter, UserPage
from schemas.people.users import Members, MembersPayload, MergePayload, User
from workers.api.api_route import ApiRoute
from workers.api.bodies import Body
from workers.api.errors import request_id, responses
from workers.api.state import Api, Tenant

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
    return pages.user_page(api.database, tenant, user_id, wanted)


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
    return membership.show(api.database, tenant, chat_id)


@router.put(MEMBERS, summary="Say who is in a chat", tags=["chats"], responses=responses(404))
def put_members(api: Api, tenant: Tenant, chat_id: Id, payload: Body[MembersPayload]) -> Members:
    """Set all members of a chat, without bots; those who speak later are added.

    Worth it where many read and few speak: what was learned elsewhere is shown only if all members know it.
    """
    return membership.set_members(api.database, tenant, chat_id, payload.members)


def _change(linked: Linked, seen: bool) -> LinkChange:
    return LinkChange(outcome=linked.outcome, user=linked.user, seen=seen, request_id=request_id())
