"""`GET /v1/chats/{chat_id}` and its sessions: one chat, by its id."""

from fastapi import APIRouter, Request

from pipeline.operations import lookup
from pipeline.store.retry import persistently
from schemas.overview import ChatSummary, SessionPage, SessionPageQuery
from schemas.payloads import ChatAddress, parse_payload
from workers.api.auth import Tenant
from workers.api.door import HeldDoor
from workers.api.errors import responses
from workers.api.openapi import SESSION_PAGE
from workers.api.routes import IdRoute

router = APIRouter(tags=["chats"], route_class=IdRoute)

ADDRESS = "/v1/chats/{chat_id}"


@router.get(ADDRESS, summary="Show a chat", responses=responses(401, 404, 422, 503))
def get_chat(door: HeldDoor, tenant: Tenant, chat_id: str) -> ChatSummary:
    """A chat's title, kind, time zone and language; of one that is not there, the ids that are like it."""
    address = parse_payload(ChatAddress, {"chat_id": chat_id})
    return persistently(lambda: lookup.chat_summary(door.database, tenant, address.chat_id))


@router.get(
    f"{ADDRESS}/sessions",
    summary="List the sessions of a chat",
    responses=responses(401, 404, 422, 503),
    openapi_extra=SESSION_PAGE,
)
def get_sessions(door: HeldDoor, tenant: Tenant, chat_id: str, request: Request) -> SessionPage:
    """When the latest sessions of a chat were, `limit` of them, and how much was said in each."""
    address = parse_payload(ChatAddress, {"chat_id": chat_id})
    given = parse_payload(SessionPageQuery, dict(request.query_params))
    found = persistently(lambda: lookup.session_spans(door.database, tenant, address.chat_id, given.limit))
    return SessionPage(sessions=found)
