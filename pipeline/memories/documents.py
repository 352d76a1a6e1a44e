"""Store, replace, list and remove documents of the organization and of users; each chunk is a memory."""

from collections.abc import Sequence
from hashlib import blake2b
from typing import Literal

from sqlalchemy import Connection

from pipeline.clients.by_space import Embedding, embedder_of
from pipeline.clients.protocols import Embedder
from pipeline.people import suppression as people_suppression
from pipeline.store import identities, vectors
from pipeline.store.chats import chats
from pipeline.store.connections.database import Database
from pipeline.store.erasure import suppression
from pipeline.store.jobs import jobs
from pipeline.store.memories import memory_rows as store
from pipeline.store.memories.memory_rows import new_id
from pipeline.store.operations import counters
from pipeline.text import tokens
from schemas.errors import NotFound, ProviderUnavailable
from schemas.masking import has_mask
from schemas.memories import (
    MANUAL_IMPORTANCE,
    DocumentFilter,
    DocumentIn,
    DocumentKept,
    ListedDocument,
    Passage,
)

CHUNK_TOKENS = 512
"""As counted by `pipeline.text.tokens`; less if the model reads less."""
OVERLAP_TOKENS = 50


def model(database: Database, tenant_id: str, embedding: Embedding | None) -> Embedder | None:
    """Return the embedder of the active space; None if there is no such space, or the model is unavailable."""
    with database.tenant(tenant_id) as connection:
        space = vectors.active_space(connection)
    try:
        return None if space is None else embedder_of(embedding, space)
    except ProviderUnavailable:
        # the document is stored anyway; chunks too long for the model are cut again when they are embedded
        return None


def cut(text: str, embedder: Embedder | None) -> list[str]:
    """Cut a text into overlapping chunks of about `CHUNK_TOKENS`, each short enough for the embedder, if there is one.

    Raises `ProviderUnavailable` when the model cannot be loaded.
    """
    if embedder is None:
        return [part.text for part in tokens.split_chunks(text, limit=CHUNK_TOKENS, overlap=OVERLAP_TOKENS)]
    limit = min(CHUNK_TOKENS, embedder.max_tokens)
    overlap = min(OVERLAP_TOKENS, limit // 2)
    cuts: list[str] = []
    for part in tokens.split_chunks(text, limit=limit, overlap=overlap):
        if embedder.count_tokens(part.text) <= embedder.max_tokens:
            cuts.append(part.text)
            continue
        # it has more of the model's tokens than estimated
        exact = tokens.split_chunks(
            part.text,
            limit=embedder.max_tokens,
            overlap=min(OVERLAP_TOKENS, embedder.max_tokens // 2),
            count=embedder.count_tokens,
        )
        cuts += [smaller.text for smaller in exact]
    return cuts


def keep(database: Database, tenant_id: str, document: DocumentIn, chunks: Sequence[str]) -> DocumentKept:
    """Replace a document's chunks, all or nothing; an equal chunk in the same place stays, with its vector.

    The same id of the organization and of users are different documents. Raises `DatabaseUnavailable`.
    """
    hashes = [digest(number, content) for number, content in enumerate(chunks)]
    rows = [(new_id(), hashed, content) for hashed, content in zip(hashes, chunks, strict=True)]
    with database.tenant(tenant_id) as connection:
        suppression.lock(connection, tenant_id)
        users = _ids(connection, document.user_id)
        store.lock_document(connection, tenant_id, document.document_id, users)
        if users is not None:
            if people_suppression.unremembered(connection, users):
                return DocumentKept(outcome="kept_out", chunks=0, written=0)
            owner = store.id_of_owner(connection, document.document_id, users) or document.user_id
            document = document.model_copy(update={"user_id": owner})
        chats.ensure_tenant(connection, tenant_id)
        dropped = store.drop_document(connection, tenant_id, document.document_id, users, keep=hashes)
        written = store.put_chunks(connection, tenant_id, document, rows, MANUAL_IMPORTANCE)
        counters.add(connection, tenant_id, {"texts_masked": bool(written) and has_mask(document.content)})
        # its own lane, so that a long document takes turns with the chats
        keys = [f"memory:{identity}" for identity in written]
        jobs.enqueue(connection, tenant_id, "embed", keys, lane=f"document {document.document_id}")
    outcome: Literal["new", "replaced", "unchanged"] = "new"
    if dropped or len(written) < len(rows):
        outcome = "replaced" if dropped or written else "unchanged"
    return DocumentKept(outcome=outcome, chunks=len(rows), written=len(written))


def listing(database: Database, tenant_id: str, filters: DocumentFilter) -> list[ListedDocument]:
    """List documents of the organization or a user in the order of their ids. Raises `DatabaseUnavailable`."""
    with database.tenant(tenant_id) as connection:
        return store.list_documents(connection, filters, _ids(connection, filters.user_id))


def passages(
    database: Database, tenant_id: str, document_id: str, user_id: str | None = None
) -> list[Passage]:
    """Return the chunks of a document of the organization or a user in order.

    Raises `NotFound`, `DatabaseUnavailable`.
    """
    with database.tenant(tenant_id) as connection:
        chunks = store.passages(connection, document_id, _ids(connection, user_id))
    if not chunks:
        raise _missing(document_id, user_id)
    return chunks


def remove(database: Database, tenant_id: str, document_id: str, user_id: str | None = None) -> int:
    """Delete a document of the organization or a user with its vectors, and return its number of chunks.

    Raises `NotFound`, `DatabaseUnavailable`.
    """
    with database.tenant(tenant_id) as connection:
        users = _ids(connection, user_id)
        store.lock_document(connection, tenant_id, document_id, users)
        gone = store.drop_document(connection, tenant_id, document_id, users)
    if not gone:
        raise _missing(document_id, user_id)
    return gone


def _ids(connection: Connection, user_id: str | None) -> list[str] | None:
    """Return all ids of a user, the user id first; None for the organization."""
    return None if user_id is None else identities.ids_of(connection, user_id)


def _missing(document_id: str, user_id: str | None) -> NotFound:
    whose, option = ("", "") if user_id is None else (f" of {user_id}", f" --user {user_id}")
    return NotFound(f"there is no document {document_id}{whose}: see `backscroll documents list{option}`")


def digest(number: int, content: str) -> bytes:
    """Hash a chunk with its number in the document, so that two equal chunks are both kept."""
    return blake2b(f"{number}\n{content}".encode(), digest_size=16).digest()
