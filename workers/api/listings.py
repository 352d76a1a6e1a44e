"""`GET /v1/chats`, `/v1/sessions`, `/v1/queries` and `/v1/status`: lists for operators, a page at a time."""

from fastapi import APIRouter, Request
from pydantic import BaseModel

from pipeline.context import query_log
from pipeline.operations import status
from pipeline.operations.status import Status
from pipeline.store import chats, sessions
from pipeline.store.retry import persistently
from schemas.listing import ChatFilter, ListedChat, ListedSession, QueryFilter, SessionFilter
from schemas.payloads import parse_payload
from schemas.querylog import LoggedContext
from workers.api.auth import Tenant
from workers.api.door import HeldDoor
from workers.api.errors import responses
from workers.api.openapi import CHAT_FILTER, QUERY_FILTER, SESSION_FILTER

router = APIRouter(tags=["overview"])


class ChatList(BaseModel):
    """Chats, by their ids."""

    chats: list[ListedChat]
    # how many there are in all
    total: int


class SessionList(BaseModel):
    """Sessions, the latest first."""

    sessions: list[ListedSession]


class QueryList(BaseModel):
    """Contexts that were served, the latest first."""

    queries: list[LoggedContext]


@router.get("/v1/chats", summary="List chats", responses=responses(401, 422, 503), openapi_extra=CHAT_FILTER)
def get_chats(door: HeldDoor, tenant: Tenant, request: Request) -> ChatList:
    """Chats by their ids, `limit` at a time; `after` is the id of the last one of the page before."""
    given = parse_payload(ChatFilter, dict(request.query_params))

    def read() -> ChatList:
        with door.database.tenant(tenant) as connection:
            rows, total = chats.page(connection, given.after or "", given.limit)
        return ChatList(chats=[ListedChat.model_validate(row._mapping) for row in rows], total=total)

    return persistently(read)


@router.get(
    "/v1/sessions", summary="List sessions", responses=responses(401, 422, 503), openapi_extra=SESSION_FILTER
)
def get_sessions(door: HeldDoor, tenant: Tenant, request: Request) -> SessionList:
    """Sessions, the latest first, of all chats or of `chat_id`, in any `status` or one.

    `after` is the id of the last one of the page before.
    """
    given = parse_payload(SessionFilter, dict(request.query_params))

    def read() -> SessionList:
        with door.database.tenant(tenant) as connection:
            rows = sessions.listing(
                connection, given.chat_id, limit=given.limit, status=given.status, after=given.after
            )
        return SessionList(sessions=[ListedSession.model_validate(row._mapping) for row in rows])

    return persistently(read)


@router.get(
    "/v1/queries",
    summary="List what was asked and shown",
    responses=responses(401, 422, 503),
    openapi_extra=QUERY_FILTER,
)
def get_queries(door: HeldDoor, tenant: Tenant, request: Request) -> QueryList:
    """The query log, the latest first, of all chats or of `chat_id`.

    `after` is the `context_id` of the last one of the page before.
    """
    given = parse_payload(QueryFilter, dict(request.query_params))
    return QueryList(
        queries=persistently(
            lambda: query_log.listing(door.database, tenant, given.chat_id, given.limit, given.after)
        )
    )


@router.get("/v1/status", summary="How the deployment is doing", responses=responses(401, 503))
def get_status(door: HeldDoor, tenant: Tenant) -> Status:
    """What is owed and how late it is, what is stored, counters of a day and a week, and what was given up.

    All of it of this tenant, and from Postgres: of Redis, `/readyz` says whether it answers.
    """
    return persistently(lambda: status.collect(door.database, tenant, all_tenants=False))
