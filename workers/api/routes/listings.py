"""What is stored, and how the deployment is doing: entities, topics, chats, sessions, the query log and the status.

Health needs no API key and tells no secrets.
"""

from typing import Annotated, Literal

from anyio import to_thread
from fastapi import APIRouter, Query, Response
from pydantic import Field

from pipeline.memories import entities
from pipeline.operations import lookup, status
from pipeline.operations.status import Status
from pipeline.recall import query_log
from pipeline.store.chats import chats
from pipeline.store.messages import message_rows
from pipeline.store.sessions import session_rows
from schemas.base import Frozen
from schemas.facts import EntityFilter, EntityList, EntityPlace, NamedEntities
from schemas.listing import (
    ChatFilter,
    ChatList,
    ChatSummary,
    ChatTopics,
    ListedChat,
    ListedMessage,
    ListedSession,
    MessageList,
    MessagesFilter,
    QueryFilter,
    QueryList,
    SessionFilter,
    SessionList,
    SessionPage,
    TopicFilter,
)
from schemas.messages import Id
from workers.api.api_route import ApiRoute
from workers.api.problems import responses
from workers.api.state import Api, ServiceState, Tenant

router = APIRouter(tags=["overview"], route_class=ApiRoute)


@router.get("/v1/entities", summary="List entities", responses=responses(404))
def get_entities(api: Api, tenant: Tenant, wanted: Annotated[EntityFilter, Query()]) -> EntityList:
    """Return people, places, organizations and things that learned memories name, those of most memories first.

    They come from the facts that a language model gives; without one the list is empty. With `chat_id` only what may
    be shown in that chat.
    """
    return entities.listing(api.database, tenant, wanted)


@router.get("/v1/entities/{name:path}", summary="Show an entity", responses=responses(404))
def get_entity(
    api: Api,
    tenant: Tenant,
    name: Id,
    place: Annotated[EntityPlace, Query()],
) -> NamedEntities:
    """Return the entities of a name, in any case, or of a person's id: their memories, and how they are related.

    Two people may share a name. With `chat_id` only what may be shown in that chat.
    """
    return entities.show(api.database, tenant, name, place)


@router.get(
    "/v1/chats/{chat_id}/topics",
    summary="Show what a chat was about over time",
    tags=["chats"],
    responses=responses(404),
)
def get_topics(api: Api, tenant: Tenant, chat_id: Id, wanted: Annotated[TopicFilter, Query()]) -> ChatTopics:
    """Return the topics of a chat's summaries `by` week or month, with counts and times, the latest period first."""
    return lookup.chat_topics(api.database, tenant, chat_id, wanted)


@router.get("/v1/chats", summary="List chats")
def get_chats(api: Api, tenant: Tenant, wanted: Annotated[ChatFilter, Query()]) -> ChatList:
    """Return chats by id or `order`, `limit` at a time; `after` is the last id of the previous page."""
    with api.database.tenant(tenant) as connection:
        if wanted.order == "latest":
            rows, total = chats.latest_page(connection, wanted.after, wanted.limit)
        else:
            rows, total = chats.page(connection, wanted.after or "", wanted.limit)
    return ChatList(chats=[ListedChat.model_validate(row._mapping) for row in rows], total=total)


@router.get("/v1/chats/{chat_id}", summary="Show a chat", tags=["chats"], responses=responses(404))
def get_chat(api: Api, tenant: Tenant, chat_id: Id) -> ChatSummary:
    """Return a chat's title, kind, time zone and language; for an unknown id, similar ids."""
    return lookup.chat_summary(api.database, tenant, chat_id)


@router.get(
    "/v1/chats/{chat_id}/sessions",
    summary="List the sessions of a chat",
    tags=["chats"],
    responses=responses(404),
)
def get_chat_sessions(
    api: Api, tenant: Tenant, chat_id: Id, limit: Annotated[int, Field(ge=1, le=2000)] = 100
) -> SessionPage:
    """Return the times and sizes of the latest sessions of a chat."""
    return SessionPage(sessions=lookup.session_spans(api.database, tenant, chat_id, limit))


@router.get("/v1/chats/{chat_id}/messages", summary="List messages", tags=["chats"], responses=responses(404))
def get_chat_messages(
    api: Api, tenant: Tenant, chat_id: Id, wanted: Annotated[MessagesFilter, Query()]
) -> MessageList:
    """Return the latest messages of a chat as they were sent, in order of time, from the moment they are committed.

    Earlier ones are before `until`, the `sent_at` of the first.
    """
    with api.database.tenant(tenant) as connection:
        chat = chats.require_current(connection, chat_id)
        newest = message_rows.recent(
            connection, chat.chat_id, wanted.limit, session_key=wanted.session_key, until=wanted.until
        )
    return MessageList(messages=[ListedMessage.model_validate(m, from_attributes=True) for m in newest[::-1]])


@router.get("/v1/sessions", summary="List sessions")
def get_sessions(api: Api, tenant: Tenant, wanted: Annotated[SessionFilter, Query()]) -> SessionList:
    """Return sessions, latest first, of all chats or of `chat_id`, with any `status` or one.

    `after` is the id of the last session of the previous page.
    """
    with api.database.tenant(tenant) as connection:
        rows = session_rows.listing(
            connection, wanted.chat_id, limit=wanted.limit, status=wanted.status, after=wanted.after
        )
    return SessionList(sessions=[ListedSession.model_validate(row._mapping) for row in rows])


@router.get("/v1/queries", summary="List the query log")
def get_queries(api: Api, tenant: Tenant, wanted: Annotated[QueryFilter, Query()]) -> QueryList:
    """Return contexts that were served, latest first, for all chats or for `chat_id`.

    `after` is the last `context_id` of the previous page.
    """
    queries = query_log.listing(api.database, tenant, wanted.chat_id, wanted.limit, wanted.after)
    return QueryList(queries=queries)


@router.get("/v1/status", summary="Show how the deployment is doing")
def get_status(api: Api, tenant: Tenant) -> Status:
    """Return pending jobs and their delay, what is stored, counters of a day and a week, and dead letters.

    All figures are of this tenant and from Postgres; `/readyz` says whether Redis answers.
    """
    return status.collect(api.database, tenant, all_tenants=False)


health_router = APIRouter(tags=["health"], route_class=ApiRoute)


class Health(Frozen):
    """The process lives."""

    status: Literal["ok"] = "ok"


class Readiness(Frozen):
    """The state of the services that the HTTP API needs."""

    status: Literal["ready", "not ready"]
    postgres: ServiceState
    redis: ServiceState
    remedy: str | None = None
    """What to do, if there is something to do."""


# async: it answers even when every thread is busy
@health_router.get("/healthz", summary="Whether the process lives")
async def healthz() -> Health:
    """Answer as long as the process lives; needs neither Postgres nor Redis."""
    return Health()


@health_router.get(
    "/readyz",
    summary="Whether requests can be served",
    response_model_exclude_none=True,
    responses={503: {"model": Readiness, "description": "Something is missing; the log says why."}},
)
async def readyz(api: Api, response: Response) -> Readiness:
    """Say whether Postgres and Redis answer and take writes, and whether the tables are those that are needed.

    Without Redis messages are still accepted and contexts served: jobs wait in Postgres.
    """
    states = (api.postgres_state, api.redis_state)
    postgres, broker = [await to_thread.run_sync(s.now, limiter=api.open_routes) for s in states]
    ready = postgres == broker == "ok"
    if not ready:
        response.status_code = 503
    return Readiness(
        status="ready" if ready else "not ready",
        postgres=postgres,
        redis=broker,
        remedy="run `backscroll db upgrade`" if postgres == "outdated" else None,
    )
