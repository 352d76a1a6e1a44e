"""`/v1/documents`: documents of the organization, kept, replaced, listed and removed."""

from typing import Literal

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel

from pipeline.memories import documents
from pipeline.store.retry import persistently
from schemas.documents import Document, DocumentAddress, DocumentFilter, DocumentIn, Passage
from schemas.payloads import parse_payload
from workers.api.auth import Tenant
from workers.api.bodies import Body, parse
from workers.api.door import HeldDoor
from workers.api.errors import request_id, responses
from workers.api.openapi import DOCUMENT_BODY, DOCUMENT_FILTER

router = APIRouter(tags=["documents"])

# an id may be a path
ADDRESS = "/v1/documents/{document_id:path}"


class DocumentReceipt(BaseModel):
    """What became of a document."""

    # `kept_out`: memory is switched off
    outcome: Literal["new", "replaced", "unchanged", "removed", "kept_out"]
    document_id: str
    # that it has now, or had
    chunks: int
    # of them written now; the others stood as they are
    written: int = 0
    request_id: str


class DocumentPage(BaseModel):
    """Documents in the order of their ids."""

    documents: list[Document]


class DocumentText(BaseModel):
    """A document's chunks in order; each but the first begins with the end of the one before."""

    document_id: str
    chunks: list[Passage]


@router.post(
    "/v1/documents",
    status_code=201,
    summary="Keep a document",
    responses=responses(401, 408, 413, 422, 503)
    | {200: {"description": "It stood already, or memory is off.", "model": DocumentReceipt}},
    openapi_extra=DOCUMENT_BODY,
)
def post_document(door: HeldDoor, tenant: Tenant, body: Body, response: Response) -> DocumentReceipt:
    """Keep a text for the whole organization, in place of what stands by its `document_id`.

    It is cut into chunks that the embedding model reads whole; contexts cite them as `Doc <id>/Chunk <n>`. Found by
    keyword at once, by meaning when it is embedded. Sending the same again is harmless.
    """
    payload = parse(DocumentIn, body)
    if not door.settings.session_memory_enabled:
        response.status_code = 200
        return _receipt("kept_out", payload.document_id, 0)
    chunks = documents.cut(payload.content, door.embedder)
    kept = persistently(lambda: documents.keep(door.database, tenant, payload, chunks))
    if kept.written:
        door.hinter.hint("embed")
    else:
        response.status_code = 200
    return _receipt(kept.outcome, payload.document_id, kept.chunks, kept.written)


@router.get(
    "/v1/documents",
    summary="List documents",
    responses=responses(401, 422, 503),
    openapi_extra=DOCUMENT_FILTER,
)
def get_documents(door: HeldDoor, tenant: Tenant, request: Request) -> DocumentPage:
    """Documents in the order of their ids, `limit` at a time; `after` is the last id of the page before."""
    given = parse_payload(DocumentFilter, dict(request.query_params))
    return DocumentPage(documents=persistently(lambda: documents.listing(door.database, tenant, given)))


@router.get(ADDRESS, summary="Read a document", responses=responses(401, 404, 422, 503))
def get_document(door: HeldDoor, tenant: Tenant, document_id: str) -> DocumentText:
    """A document's chunks, such as a context has cited."""
    named = parse_payload(DocumentAddress, {"document_id": document_id}).document_id
    chunks = persistently(lambda: documents.passages(door.database, tenant, named))
    return DocumentText(document_id=named, chunks=chunks)


@router.delete(ADDRESS, summary="Remove a document", responses=responses(401, 404, 422, 503))
def delete_document(door: HeldDoor, tenant: Tenant, document_id: str) -> DocumentReceipt:
    """Remove a document with its chunks and their vectors. It may be sent again."""
    named = parse_payload(DocumentAddress, {"document_id": document_id}).document_id
    return _receipt("removed", named, persistently(lambda: documents.remove(door.database, tenant, named)))


def _receipt(
    outcome: Literal["new", "replaced", "unchanged", "removed", "kept_out"],
    document_id: str,
    chunks: int,
    written: int = 0,
) -> DocumentReceipt:
    return DocumentReceipt(
        outcome=outcome, document_id=document_id, chunks=chunks, written=written, request_id=request_id()
    )
