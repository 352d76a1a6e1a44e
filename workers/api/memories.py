"""`/v1/memories`: memories written by hand, listed and deleted."""

from typing import Literal
from uuid import UUID

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel

from pipeline.memories import statements as memories
from pipeline.store.retry import persistently
from schemas.memories import Memory, MemoryFilter, MemoryPayload
from schemas.payloads import parse_payload
from workers.api.auth import Tenant
from workers.api.bodies import Body, parse
from workers.api.door import HeldDoor
from workers.api.errors import request_id, responses
from workers.api.openapi import MEMORY_BODY, MEMORY_FILTER

router = APIRouter(tags=["memories"])


class MemoryReceipt(BaseModel):
    """What became of a memory."""

    # `known`: the same stands already; `kept_out`: of what is not to be remembered, or was forgotten
    outcome: Literal["new", "known", "kept_out", "deleted"]
    # null: it was not written
    id: UUID | None
    request_id: str


class MemoryPage(BaseModel):
    """Memories, the newest first."""

    memories: list[Memory]


class _Address(BaseModel):
    id: UUID


@router.post(
    "/v1/memories",
    status_code=201,
    summary="Remember a statement",
    responses=responses(401, 408, 413, 422, 503)
    | {200: {"description": "It stands already, or is not to be remembered.", "model": MemoryReceipt}},
    openapi_extra=MEMORY_BODY,
)
def post_memory(door: HeldDoor, tenant: Tenant, body: Body, response: Response) -> MemoryReceipt:
    """Remember a statement of a user, an agent, a session or the organization, of the type `manual` by default.

    Found by keyword at once, by meaning when it is embedded. The same words in the same scope are the same memory.
    """
    payload = parse(MemoryPayload, body)
    if not door.settings.session_memory_enabled:
        response.status_code = 200
        return MemoryReceipt(outcome="kept_out", id=None, request_id=request_id())
    written = persistently(lambda: memories.remember(door.database, tenant, payload))
    if written.outcome == "new":
        door.hinter.hint("embed")
    else:
        response.status_code = 200
    return MemoryReceipt(outcome=written.outcome, id=written.id, request_id=request_id())


@router.get(
    "/v1/memories",
    summary="List memories",
    responses=responses(401, 404, 422, 503),
    openapi_extra=MEMORY_FILTER,
)
def get_memories(door: HeldDoor, tenant: Tenant, request: Request) -> MemoryPage:
    """Memories, the newest first, by `scope`, `user_id` (any id of the person) and `agent_id`, `limit` at a time.

    With `chat_id` those alone that may be shown in that chat. `after` is the id of the last one of the page before.
    """
    given = parse_payload(MemoryFilter, dict(request.query_params))
    return MemoryPage(memories=persistently(lambda: memories.listing(door.database, tenant, given)))


@router.delete("/v1/memories/{memory_id}", summary="Delete a memory", responses=responses(401, 404, 422, 503))
def delete_memory(door: HeldDoor, tenant: Tenant, memory_id: str) -> MemoryReceipt:
    """Delete a memory. It may be written again; what is to stay away for good is forgotten with its user or chat."""
    address = parse_payload(_Address, {"id": memory_id})
    persistently(lambda: memories.delete(door.database, tenant, address.id))
    return MemoryReceipt(outcome="deleted", id=address.id, request_id=request_id())
