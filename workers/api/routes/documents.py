"""`/v1/documents`: documents of the organization and of users, stored, replaced, listed and removed."""

from dataclasses import asdict
from typing import Annotated, Literal

from fastapi import APIRouter, Query, Response

from pipeline.memories import documents
from schemas.base import Frozen
from schemas.memory.documents import DocumentFilter, DocumentIn, DocumentOwner, ListedDocument, Passage
from schemas.messages import Id
from workers.api.api_route import ApiRoute
from workers.api.bodies import Body
from workers.api.errors import request_id, responses
from workers.api.state import Api, Tenant

router = APIRouter(tags=["documents"], route_class=ApiRoute)

# an id may be a path
ADDRESS = "/v1/documents/{document_id:path}"


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


@router.post(
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
    return DocumentReceipt(**asdict(kept), document_id=name, request_id=trace_id)


@router.get("/v1/documents", summary="List documents")
def get_documents(api: Api, tenant: Tenant, wanted: Annotated[DocumentFilter, Query()]) -> DocumentPage:
    """Return documents by id, the organization's or with `user_id` a user's.

    `limit` at a time; `after` is the last id of the previous page.
    """
    return DocumentPage(documents=documents.listing(api.database, tenant, wanted))


@router.get(ADDRESS, summary="Read a document", responses=responses(404))
def get_document(
    api: Api, tenant: Tenant, document_id: Id, owner: Annotated[DocumentOwner, Query()]
) -> DocumentText:
    """Return the chunks of a document of the organization, or with `user_id` of a user, such as a context has cited."""
    chunks = documents.passages(api.database, tenant, document_id, owner.user_id)
    return DocumentText(document_id=document_id, chunks=chunks)


@router.delete(ADDRESS, summary="Remove a document", responses=responses(404))
def delete_document(
    api: Api, tenant: Tenant, document_id: Id, owner: Annotated[DocumentOwner, Query()]
) -> DocumentReceipt:
    """Remove a document of the organization, or with `user_id` of a user, with its vectors. It may be sent again."""
    chunks = documents.remove(api.database, tenant, document_id, owner.user_id)
    return DocumentReceipt(outcome="removed", document_id=document_id, chunks=chunks, request_id=request_id())
