"""Pages of chats, a chat's sessions, a session with its derived data, and of people with their memories."""

from typing import Annotated
from urllib.parse import quote
from uuid import UUID

from fastapi import APIRouter, Query, Request, Response
from pydantic import Field

from pipeline.memories import entities
from pipeline.operations import lookup, status
from pipeline.people import identities
from pipeline.recall import search
from pipeline.store import vector_spaces, vectors
from pipeline.store.chats import chat_moves, chats
from pipeline.store.messages import edits, message_rows
from pipeline.store.operations import stats
from pipeline.store.sessions import session_rows
from schemas.context import Hit
from schemas.errors import NotFound
from schemas.listing import ChatFilter, SessionFilter
from schemas.messages import MAX_QUERY_CHARS, Id, IdOrEmpty, Name, RowId
from schemas.payloads import parse_payload
from schemas.people import UserFilter
from schemas.search import SearchQuery
from workers.api.inspector.pages import PageRoute, go_to, page
from workers.api.state import Api, ApiState, Tenant

router = APIRouter(prefix="/inspect", route_class=PageRoute, include_in_schema=False)

ROWS = 50
MESSAGES = 200
FOUND = 20
MEMORIES = 100
LATEST = 5_000
"""Latest messages of a chat whose vectors a page counts."""
JOBS = ("summarize", "extract", "embed")


class ChatSearch(ChatFilter):
    """The parameters of the list of chats."""

    name: Annotated[Name, Field(max_length=200)] = ""
    limit: int = ROWS


@router.get("")
async def get_start(request: Request) -> Response:
    """Begin with the chats."""
    return go_to("chats")


@router.get("/chats")
def get_chats(request: Request, api: Api, tenant: Tenant, wanted: Annotated[ChatSearch, Query()]) -> Response:
    """List chats by id, or those with a name."""
    with api.database.tenant(tenant) as connection:
        rows, total = chats.page(connection, wanted.after or "", ROWS, wanted.name.strip())
    return page(request, "chats", rows=rows, total=total, name=wanted.name, full=len(rows) == ROWS)


class ChatView(SessionFilter):
    """The parameters of a chat's page."""

    words: Annotated[str, Field(max_length=MAX_QUERY_CHARS)] = ""
    """What its messages are searched for."""


@router.get("/chats/{chat_id}")
def get_chat(
    request: Request, api: Api, tenant: Tenant, chat_id: Id, wanted: Annotated[ChatView, Query()]
) -> Response:
    """Show a chat: what is found in it, the progress of its memory, its members, and its sessions, latest first."""
    with api.database.tenant(tenant) as connection:
        chat = lookup.find_chat(connection, chat_id)
        rows = session_rows.listing(
            connection, chat.chat_id, limit=ROWS, status=wanted.status, after=wanted.after
        )
    return page(
        request,
        "chat",
        chat=chat,
        rows=rows,
        wanted=wanted.status,
        words=wanted.words,
        found=_found(api, tenant, chat.chat_id, wanted.words.strip()),
        full=len(rows) == ROWS,
        progress=status.progress(api.database, tenant, [chat.chat_id], LATEST),
        members=identities.show_members(api.database, tenant, chat.chat_id),
    )


def _found(api: ApiState, tenant: str, chat_id: str, words: str) -> list[Hit] | None:
    if not words:
        return None
    query = parse_payload(SearchQuery, {"chat_id": chat_id, "query": words, "limit": FOUND})
    return [*search(api.database, tenant, query, embedder=api.embedders, settings=api.settings).hits]


@router.get("/sessions/{session_id}")
def get_session(
    request: Request, api: Api, tenant: Tenant, session_id: int, at: RowId | None = None
) -> Response:
    """Show a session from its beginning, or from the message `at`: messages, summary, memories, vectors and jobs."""
    with api.database.tenant(tenant) as connection:
        session = lookup.find_session(connection, session_id)
        chat = lookup.find_chat(connection, session.chat_id)
        first = next(iter(message_rows.by_id(connection, [at] if at else [])), None)
        transcript = message_rows.in_range(
            connection,
            session.chat_id,
            session.session_key,
            session.started_at,
            session.ended_at,
            limit=MESSAGES + 1,
            after=None if first is None else first.stamp._replace(id=first.id - 1),
        )
        ids = [message.id for message in transcript[:MESSAGES]]
        keys = [f"session:{session.id}", *(f"message:{message_id}" for message_id in ids)]
        return page(
            request,
            "session",
            session=session,
            chat=chat,
            first=first,
            messages=transcript[:MESSAGES],
            following=transcript[MESSAGES].id if len(transcript) > MESSAGES else None,
            spaces=[
                space
                for space in (vector_spaces.listing(connection) if vectors.exist(connection) else [])
                if space.status != "retired"
            ],
            having=stats.spaces_of(connection, ids),
            summary_spaces=stats.spaces_of_session(connection, session.id),
            jobs=stats.jobs_of(connection, JOBS, keys),
            memories=stats.memories_of_session(connection, session.id, MEMORIES),
        )


@router.get("/messages/{message_id}")
def get_message(request: Request, api: Api, tenant: Tenant, message_id: RowId) -> Response:
    """Go to the session of a message, at the message."""
    with api.database.tenant(tenant) as connection:
        session_id = stats.session_of(connection, message_id)
    if session_id is None:
        raise NotFound(f"message {message_id} is in no session: it waits for its place, or was deleted")
    return go_to(f"sessions/{session_id}?at={message_id}#message-{message_id}")


@router.get("/said")
def get_by_external_id(request: Request, api: Api, tenant: Tenant, chat_id: Id, external_id: Id) -> Response:
    """Go to a message by its id on the platform."""
    with api.database.tenant(tenant) as connection:
        row = edits.find(connection, *chat_moves.address(connection, chat_id, external_id), locked=False)
    if row is None:
        raise NotFound("the message is not there any more")
    return get_message(request, api, tenant, row.id)


@router.get("/memories/{memory_id}")
def get_memory(request: Request, api: Api, tenant: Tenant, memory_id: UUID) -> Response:
    """Go to the person that a memory is about, or else to its session."""
    with api.database.tenant(tenant) as connection:
        owner = stats.owner_of_memory(connection, str(memory_id))
    if owner is not None and owner.user_id is not None:
        user = quote(owner.user_id, safe="")
        return go_to(f"people/{user}#memory-{memory_id}")
    if owner is not None and owner.session is not None:
        return go_to(f"sessions/{owner.session}")
    raise NotFound(
        f"there is no memory {memory_id}"
        if owner is None
        else f"memory {memory_id} is of the scope {owner.scope}: see `backscroll memories list`"
    )


people_router = APIRouter(prefix="/inspect/people", route_class=PageRoute, include_in_schema=False)


@people_router.get("")
def get_people(request: Request, api: Api, tenant: Tenant, after: IdOrEmpty = "") -> Response:
    """List the people who have memories."""
    with api.database.tenant(tenant) as connection:
        rows = stats.people(connection, after, ROWS)
    return page(request, "people", rows=rows, full=len(rows) == ROWS)


@people_router.get("/{user_id}")
def get_person(
    request: Request, api: Api, tenant: Tenant, user_id: Id, wanted: Annotated[UserFilter, Query()]
) -> Response:
    """Show a person: current memories, and earlier ones."""
    person = entities.user_page(api.database, tenant, user_id, wanted)
    known = [*person.current, *person.earlier]
    full = len(known) == wanted.limit
    return page(request, "person", person=person, following=known[-1].id if full else None)
