"""SQL of documents: their chunks are memories of the organization, each with its document and its place there."""

from collections.abc import Sequence
from uuid import UUID

from sqlalchemy import Connection, text

from pipeline.store import jobs
from schemas.documents import DocumentFilter, DocumentIn, ListedDocument, Passage
from schemas.kinds import EMBED

# Any constant will do; with tenant and document it makes one advisory lock for each document.
REPLACING = 0x646F6373

_OF_DOCUMENT = "scope = 'organization' AND type = 'document' AND document_id = :document"

_LOCK = text(f"SELECT pg_advisory_xact_lock(hashtextextended(:name, {REPLACING}))")
_DROP = text(f"DELETE FROM memories WHERE {_OF_DOCUMENT} AND NOT content_hash = ANY(:keep) RETURNING id")
_PASSAGES = text(f"SELECT chunk_index, content FROM memories WHERE {_OF_DOCUMENT} ORDER BY chunk_index")


def lock(connection: Connection, tenant_id: str, document_id: str) -> None:
    """Let one transaction at a time write a document, so that two versions are never mixed; waits for the other."""
    connection.execute(_LOCK, {"name": f"{tenant_id} {document_id}"})


_PUT = text("""
    INSERT INTO memories (tenant_id, id, scope, type, content, content_hash, importance, source,
        document_id, chunk_index, language)
    SELECT :tenant, chunk.id, 'organization', 'document', chunk.content, chunk.hash, :importance, :source,
        :document, chunk.place - 1, :language
    FROM unnest(CAST(:ids AS uuid[]), CAST(:hashes AS bytea[]), CAST(:contents AS text[]))
        WITH ORDINALITY AS chunk (id, hash, content, place)
    ON CONFLICT (tenant_id, scope, coalesce(session_id, 0), coalesce(user_id, ''), coalesce(agent_id, ''),
        coalesce(document_id, ''), content_hash)
    DO UPDATE SET source = excluded.source, language = excluded.language
    RETURNING id, (xmax = 0) AS new
""")


def put(
    connection: Connection,
    tenant_id: str,
    document: DocumentIn,
    chunks: Sequence[tuple[UUID, bytes, str]],
    importance: float,
) -> list[UUID]:
    """Write chunks `(id, content hash, text)`, in order; the ids of the new ones: one that stands stays as it is."""
    rows = connection.execute(
        _PUT,
        {
            "tenant": tenant_id,
            "document": document.document_id,
            "source": document.source,
            "language": document.language,
            "importance": importance,
            "ids": [identity for identity, _, _ in chunks],
            "hashes": [digest for _, digest, _ in chunks],
            "contents": [content for _, _, content in chunks],
        },
    )
    return [row.id for row in rows if row.new]


def drop(connection: Connection, tenant_id: str, document_id: str, *, keep: Sequence[bytes] = ()) -> int:
    """Delete a document's chunks but those with these content hashes, with vectors and work; how many."""
    gone = connection.execute(_DROP, {"document": document_id, "keep": list(keep)}).all()
    jobs.drop(connection, tenant_id, [EMBED], [f"memory:{row.id}" for row in gone])
    return len(gone)


_LISTING = text("""
    SELECT document_id, max(source) AS source, max(language) AS language, count(*) AS chunks,
        max(created_at) AS changed_at
    FROM memories
    WHERE scope = 'organization' AND type = 'document' AND document_id IS NOT NULL
        AND (CAST(:after AS text) IS NULL OR document_id COLLATE "C" > :after)
    GROUP BY document_id ORDER BY document_id COLLATE "C" LIMIT :limit
""")


def listing(connection: Connection, given: DocumentFilter) -> list[ListedDocument]:
    """Documents by their ids, in order."""
    rows = connection.execute(_LISTING, {"after": given.after, "limit": given.limit})
    return [ListedDocument(**row._mapping) for row in rows]


def passages(connection: Connection, document_id: str) -> list[Passage]:
    """A document's chunks in order; none when there is no such document."""
    rows = connection.execute(_PASSAGES, {"document": document_id})
    return [Passage(chunk_index=row.chunk_index or 0, content=row.content) for row in rows]
