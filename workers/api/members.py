"""`/v1/chats/{chat_id}/members`: who is in a chat, told by a bot that knows."""

from fastapi import APIRouter

from pipeline.people import membership
from pipeline.store.retry import persistently
from schemas.payloads import ChatAddress, parse_payload
from schemas.users import Members, MembersPayload
from workers.api.auth import Tenant
from workers.api.bodies import Body, parse
from workers.api.door import HeldDoor
from workers.api.errors import responses
from workers.api.openapi import MEMBERS_BODY
from workers.api.routes import IdRoute

router = APIRouter(tags=["chats"], route_class=IdRoute)

ADDRESS = "/v1/chats/{chat_id}/members"


@router.get(ADDRESS, summary="Show who is in a chat", responses=responses(401, 404, 422, 503))
def get_members(door: HeldDoor, tenant: Tenant, chat_id: str) -> Members:
    """Whoever has spoken in the chat, or was named."""
    address = parse_payload(ChatAddress, {"chat_id": chat_id})
    return persistently(lambda: membership.show(door.database, tenant, address.chat_id))


@router.put(
    ADDRESS,
    summary="Say who is in a chat",
    responses=responses(401, 404, 408, 413, 422, 503),
    openapi_extra=MEMBERS_BODY,
)
def put_members(door: HeldDoor, tenant: Tenant, chat_id: str, body: Body) -> Members:
    """Let these be all who are there, without the bots; whoever speaks later is added.

    Worth it where many read and few speak: what was learned elsewhere is shown only where everybody knows it.
    """
    address = parse_payload(ChatAddress, {"chat_id": chat_id})
    payload = parse(MembersPayload, body)
    return persistently(lambda: membership.tell(door.database, tenant, address.chat_id, payload.members))
