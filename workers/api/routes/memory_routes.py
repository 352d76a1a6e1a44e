"""`/v1/memories` and `/v1/documents`: written by hand, listed, changed, corrected and deleted."""

from typing import Annotated, Literal
from uuid import UUID

from fastapi import APIRouter, Query, Response

from pipeline.memories import documents
from pipeline.memories import statements as memories
from pipeline.memories.statements import MemoryChange
from pipeline.recall.search_modes import search_memories
from schemas.base import Frozen
from schemas.memories import (
    DocumentFilter,
    DocumentIn,
    DocumentOwner,
    ListedDocument,
    Memory,
    MemoryCorrection,
    MemoryEdit,
    MemoryFilter,
    MemoryPayload,
    MemoryPromotion,
    MemoryQuery,
    MemoryReceipt,
    MemoryResult,
    Passage,
)
from schemas.messages import Id
from workers.api.api_route import ApiRoute
from workers.api.bodies import Body
from workers.api.problems import request_id, responses
from workers.api.state import Api, Tenant

router = APIRouter(tags=["memories"], route_class=ApiRoute)


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

    It is found by keyword at once, by meaning once it is embedded. The same words in the same scope and chat are one
    memory, which is believed again if it was superseded or retracted. One of a session without `expires_at` lives for
    `BACKSCROLL_MEMORY_SESSION_TTL_MINUTES` after it was last written or shown.
    """
    if not api.settings.session_memory_enabled:
        response.status_code = 200
        return MemoryReceipt(outcome="kept_out", id=None, request_id=request_id())
    written = memories.remember(
        api.database, tenant, payload, session_lifetime=api.settings.session_lifetime()
    )
    if written.outcome == "new":
        api.waker.wake_up("embed")
    else:
        response.status_code = 200
    return MemoryReceipt(outcome=written.outcome, id=written.id, request_id=request_id())


@router.get("/v1/memories", summary="List memories", responses=responses(404))
def get_memories(api: Api, tenant: Tenant, wanted: Annotated[MemoryFilter, Query()]) -> MemoryPage:
    """Return memories, newest first, by `scope`, `user_id` (any id of the person), `agent_id`, `type` and `source`.

    `limit` at a time; `after` is the last `id` of the previous page. With `chat_id` only those that may be shown in
    that chat; with `as_of` what was believed then. What a newer memory has superseded, or is known to be wrong, is only
    listed with `superseded`.
    """
    return MemoryPage(memories=memories.listing(api.database, tenant, wanted))


@router.post("/v1/memories/search", summary="Search memories", responses=responses(404))
def post_memory_search(api: Api, tenant: Tenant, query: Body[MemoryQuery]) -> MemoryResult:
    """Find memories by words and meaning; with `chat_id` only those that may be shown in that chat.

    What was superseded, or is known to be wrong, is found only as of a time (`as_of`) when it was believed.
    """
    return search_memories(api.database, tenant, query, embedder=api.embedders)


@router.patch("/v1/memories/{memory_id}", summary="Edit a memory", responses=responses(404, 409))
def patch_memory(api: Api, tenant: Tenant, memory_id: UUID, wanted: Body[MemoryEdit]) -> MemoryReceipt:
    """Change the words, importance, expiry or metadata of a memory.

    What is left out stays. New words are embedded again, and stay whatever is learned later. 409: another memory of the
    same owner has these words, or this one is retracted.
    """
    return _changed(api, memories.edit(api.database, tenant, memory_id, wanted))


@router.post(
    "/v1/memories/{memory_id}/promote", summary="Widen a memory's scope", responses=responses(404, 409)
)
def post_promotion(api: Api, tenant: Tenant, memory_id: UUID, wanted: Body[MemoryPromotion]) -> MemoryReceipt:
    """Give a memory of a session to a user, an agent or the organization, or one of these to a wider scope.

    Where it was learned stays, and so who may see it.
    """
    return _changed(api, memories.promote(api.database, tenant, memory_id, wanted))


@router.post("/v1/memories/{memory_id}/correct", summary="Correct a memory", responses=responses(404))
def post_correction(
    api: Api, tenant: Tenant, memory_id: UUID, wanted: Body[MemoryCorrection]
) -> MemoryReceipt:
    """Say that a memory is wrong, such as when the person says so.

    With `content`, the right statement, a new memory of the same owner supersedes it; without, it is retracted and not
    learned again from the same messages. Either way it stays as history and is never shown as what is known.
    """
    return _changed(api, memories.correct(api.database, tenant, memory_id, wanted))


@router.delete("/v1/memories/{memory_id}", summary="Delete a memory", responses=responses(404))
def delete_memory(api: Api, tenant: Tenant, memory_id: UUID) -> MemoryReceipt:
    """Delete a memory. It may be written again; to keep it out for good, forget its user or chat."""
    memories.delete(api.database, tenant, memory_id)
    return MemoryReceipt(outcome="deleted", id=memory_id, request_id=request_id())


def _changed(api: Api, changed: MemoryChange) -> MemoryReceipt:
    if changed.outcome in {"edited", "corrected"}:
        api.waker.wake_up("embed")
    return MemoryReceipt(outcome=changed.outcome, id=changed.id, request_id=request_id())


documents_router = APIRouter(tags=["documents"], route_class=ApiRoute)

# an id may be a path
DOCUMENT_ADDRESS = "/v1/documents/{document_id:path}"


class DocumentReceipt(Frozen):
    """The result of storing or removing a document."""

    outcome: Literal["new", "replaced", "unchanged", "removed", "kept_out"]
    """`kept_out`: its user is not to be remembered."""
    document_id: str
    chunks: int
    """The number of chunks that it has, or had."""
    written: int = 0
    """The number of chunks written; the others were there already."""
    request_id: str


class DocumentPage(Frozen):
    """Documents by id."""

    documents: list[ListedDocument]


class DocumentText(Frozen):
    """A document's chunks in order; each but the first begins with the end of the one before."""

    document_id: str
    chunks: list[Passage]


@documents_router.post(
    "/v1/documents",
    status_code=201,
    summary="Store a document",
    responses={
        200: {"description": "It was there already, or is not to be remembered.", "model": DocumentReceipt}
    },
)
def post_document(
    api: Api, tenant: Tenant, document: Body[DocumentIn], response: Response
) -> DocumentReceipt:
    """Store a text for the whole organization or one user, in place of an earlier one with the same `document_id`.

    With `user_id` it is shown to that user alone, in direct chats and threads where nobody else is.

    It is cut into chunks that the embedding model reads whole; contexts cite them as `Doc <id>/Chunk <n>`. It is found
    by keyword at once, by meaning once it is embedded. Sending the same again is harmless.
    """
    name, trace_id = document.document_id, request_id()
    model = documents.model(api.database, tenant, api.embedders)
    kept = documents.keep(api.database, tenant, document, documents.cut(document.content, model))
    if kept.written:
        api.waker.wake_up("embed")
    else:
        response.status_code = 200
    return DocumentReceipt(**kept.model_dump(), document_id=name, request_id=trace_id)


@documents_router.get("/v1/documents", summary="List documents")
def get_documents(api: Api, tenant: Tenant, wanted: Annotated[DocumentFilter, Query()]) -> DocumentPage:
    """Return documents by id, the organization's or with `user_id` a user's.

    `limit` at a time; `after` is the last id of the previous page.
    """
    return DocumentPage(documents=documents.listing(api.database, tenant, wanted))


@documents_router.get(DOCUMENT_ADDRESS, summary="Read a document", responses=responses(404))
def get_document(
    api: Api, tenant: Tenant, document_id: Id, owner: Annotated[DocumentOwner, Query()]
) -> DocumentText:
    """Return the chunks of a document of the organization, or with `user_id` of a user, such as a context has cited."""
    chunks = documents.passages(api.database, tenant, document_id, owner.user_id)
    return DocumentText(document_id=document_id, chunks=chunks)


@documents_router.delete(DOCUMENT_ADDRESS, summary="Remove a document", responses=responses(404))
def delete_document(
    api: Api, tenant: Tenant, document_id: Id, owner: Annotated[DocumentOwner, Query()]
) -> DocumentReceipt:
    """Remove a document of the organization, or with `user_id` of a user, with its vectors. It may be sent again."""
    chunks = documents.remove(api.database, tenant, document_id, owner.user_id)
    return DocumentReceipt(outcome="removed", document_id=document_id, chunks=chunks, request_id=request_id())
