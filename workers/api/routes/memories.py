"""`/v1/memories`: memories written by hand, listed and deleted."""

from typing import Annotated, Literal
from uuid import UUID

from fastapi import APIRouter, Query, Response

from pipeline.memories import statements as memories
from schemas.base import Frozen
from schemas.memories import Memory, MemoryFilter, MemoryPayload
from workers.api.api_route import ApiRoute
from workers.api.bodies import Body
from workers.api.errors import request_id, responses
from workers.api.state import Api, Tenant

router = APIRouter(tags=["memories"], route_class=ApiRoute)


class MemoryReceipt(Frozen):
    """The result of writing or deleting a memory."""

    outcome: Literal["new", "known", "kept_out", "deleted"]
    """`known`: the same memory exists; `kept_out`: memory is off, or its subject was forgotten."""
    id: UUID | None
    """Null: it was not stored."""
    request_id: str


class MemoryPage(Frozen):
    """Memories, newest first."""

    memories: list[Memory]


@router.post(
    "/v1/memories",
    status_code=201,
    summary="Remember a statement",
    responses={200: {"description": "It exists, or is not to be remembered.", "model": MemoryReceipt}},
)
def post_memory(api: Api, tenant: Tenant, payload: Body[MemoryPayload], response: Response) -> MemoryReceipt:
    """Store a statement about a user, an agent, a session or the organization, of the type `manual` by default.

    It is found by keyword at once, by meaning once it is embedded. The same words in the same scope are one memory.
    """
    if not api.settings.session_memory_enabled:
        response.status_code = 200
        return MemoryReceipt(outcome="kept_out", id=None, request_id=request_id())
    written = memories.remember(api.database, tenant, payload)
    if written.outcome == "new":
        api.hinter.hint("embed")
    else:
        response.status_code = 200
    return MemoryReceipt(outcome=written.outcome, id=written.id, request_id=request_id())


@router.get("/v1/memories", summary="List memories", responses=responses(404))
def get_memories(api: Api, tenant: Tenant, wanted: Annotated[MemoryFilter, Query()]) -> MemoryPage:
    """Return memories, newest first, by `scope`, `user_id` (any id of the person) and `agent_id`, `limit` at a time.

    With `chat_id` only those that may be shown in that chat. `after` is the last `id` of the previous page.
    """
    return MemoryPage(memories=memories.listing(api.database, tenant, wanted))


@router.delete("/v1/memories/{memory_id}", summary="Delete a memory", responses=responses(404))
def delete_memory(api: Api, tenant: Tenant, memory_id: UUID) -> MemoryReceipt:
    """Delete a memory. It may be written again; to keep it out for good, forget its user or chat."""
    memories.delete(api.database, tenant, memory_id)
    return MemoryReceipt(outcome="deleted", id=memory_id, request_id=request_id())
