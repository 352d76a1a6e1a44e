"""SQL of memories and documents: write, find those that may matter, note that they were used."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, Row, TextClause, text

from pipeline.store import jobs
from pipeline.store.filters import Scope
from pipeline.store.membership import Seen, Visible
from pipeline.store.statements import arrays, column, holds, number, run
from pipeline.store.vectors import distance, in_space, literal
from schemas.documents import DocumentFilter, DocumentIn, ListedDocument, Passage
from schemas.kinds import EMBED
from schemas.memories import Memory, MemoryFilter, MemoryIn
from schemas.vectors import EmbeddingSpace, Vector

_INSERT = text("""
    INSERT INTO memories (tenant_id, id, scope, type, session_id, user_id, agent_id, content, content_hash,
        importance, expires_at, source, learned_in, document_id, chunk_index, metadata, language)
    VALUES (:tenant, :id, :scope, :type, :session_id, :user_id, :agent_id, :content, :hash, :importance,
        :expires_at, :source, :learned_in, :document_id, :chunk_index, :metadata, :language)
    ON CONFLICT (tenant_id, scope, coalesce(session_id, 0), coalesce(user_id, ''), coalesce(agent_id, ''),
        coalesce(document_id, ''), content_hash)
    DO UPDATE SET importance = greatest(memories.importance, excluded.importance),
        expires_at = greatest(memories.expires_at, excluded.expires_at)
    RETURNING id, (xmax = 0) AS new
""")
_ANY_THERE = text("SELECT EXISTS (SELECT 1 FROM memories)")
_SHARE_OF_WORDS = """(SELECT count(*)::float8 FROM unnest(CAST(:words AS text[])) w
    WHERE w = ANY(tsvector_to_array(m.tsv))) / greatest(cardinality(CAST(:words AS text[])), 1)"""
# Live memories of these scopes: the organization's, one agent's, one person's by all their ids, and those of sessions.
_IN_SCOPE = """
    (m.expires_at IS NULL OR m.expires_at > now())
        AND ((m.scope = 'organization')
            OR (m.scope = 'agent' AND m.agent_id = :agent)
            OR (m.scope = 'user' AND m.user_id = ANY(:users) AND m.importance >= :min_importance)
            OR (m.scope = 'session' AND m.session_id IN (SELECT s.id FROM conversation_sessions s
                WHERE s.chat_id = :chat AND s.status <> 'merged'
                    AND (CAST(:key AS text) IS NULL OR s.session_key = :key)
                ORDER BY s.ended_at DESC LIMIT :sessions)))
"""
_VISIBLE = "(:everywhere OR m.learned_in IS NULL OR m.learned_in = ANY(:chats))"
_COUNT_HIDDEN = text(f"SELECT count(*) FROM memories m WHERE {_IN_SCOPE} AND NOT {_VISIBLE}")
_LISTING = text("""
    SELECT id, scope, type, content, user_id, agent_id, session_id, learned_in, importance, access_count,
        last_accessed_at, expires_at, source, document_id, chunk_index, metadata, created_at
    FROM memories
    WHERE (expires_at IS NULL OR expires_at > now())
        AND (CAST(:scope AS text) IS NULL OR scope = :scope)
        AND (CAST(:users AS text[]) IS NULL OR user_id = ANY(:users))
        AND (CAST(:agent AS text) IS NULL OR agent_id = :agent)
        AND (CAST(:chats AS text[]) IS NULL OR learned_in IS NULL OR learned_in = ANY(:chats))
        AND (CAST(:after AS uuid) IS NULL OR id < :after)
    ORDER BY id DESC LIMIT :limit
""")
_DELETE = text("DELETE FROM memories WHERE id = :id")
_CHAT_OF_SESSION = text("SELECT chat_id FROM conversation_sessions WHERE id = :id AND status <> 'merged'")
_TOUCH = text("""
    UPDATE memories SET access_count = access_count + 1, last_accessed_at = now()
    WHERE id = ANY(CAST(:ids AS uuid[]))
""")
_CONTENTS = text("SELECT id, content FROM memories WHERE id = ANY(CAST(:ids AS uuid[]))")
_PUT_CHUNKS = text("""
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
_OF_DOCUMENT = "scope = 'organization' AND type = 'document' AND document_id = :document"
_DROP_DOCUMENT = text(
    f"DELETE FROM memories WHERE {_OF_DOCUMENT} AND NOT content_hash = ANY(:keep) RETURNING id"
)
_LIST_DOCUMENTS = text("""
    SELECT document_id, max(source) AS source, max(language) AS language, count(*) AS chunks,
        max(created_at) AS changed_at
    FROM memories
    WHERE scope = 'organization' AND type = 'document' AND document_id IS NOT NULL
        AND (CAST(:after AS text) IS NULL OR document_id COLLATE "C" > :after)
    GROUP BY document_id ORDER BY document_id COLLATE "C" LIMIT :limit
""")
_PASSAGES = text(f"SELECT chunk_index, content FROM memories WHERE {_OF_DOCUMENT} ORDER BY chunk_index")


def insert(
    connection: Connection,
    tenant_id: str,
    identity: UUID,
    memory: MemoryIn,
    content_hash: bytes,
    language: str,
) -> tuple[UUID, bool]:
    """Write a memory, or keep the one with the same statement and scope; return `(its id, whether it is new)`."""
    given = {"tenant": tenant_id, "id": identity, "hash": content_hash, "language": language}
    row = run(connection, _INSERT, **memory.model_dump(exclude={"said_at", "v"}), **given).one()
    return row.id, bool(row.new)


SESSIONS = 100
"""The latest sessions of a chat, or of one key in it, whose memories are shown."""


def any_there(connection: Connection) -> bool:
    """Tell whether the tenant has any memory."""
    return holds(connection, _ANY_THERE)


@lru_cache(maxsize=16)
def _relevant(space: EmbeddingSpace | None) -> TextClause:
    cosine, join = "NULL::float8", ""
    if space is not None:
        cosine = f"1 - ({distance(space, 'v.embedding')})"
        join = f"""LEFT JOIN memory_vectors v ON v.tenant_id = m.tenant_id AND v.memory_id = m.id
            AND {in_space(space, "v.")}"""
    return text(f"""
        WITH alike AS (
            SELECT m.id, m.scope, m.created_at, m.type = 'document' AS is_chunk, max({cosine}) AS cosine,
                max(coalesce({cosine}, {_SHARE_OF_WORDS})) AS similarity
            FROM memories m {join}
            WHERE {_IN_SCOPE} AND {_VISIBLE}
            GROUP BY m.tenant_id, m.id
        ), near AS (
            SELECT id, cosine, similarity, row_number() OVER (
                PARTITION BY scope, is_chunk ORDER BY similarity DESC, created_at DESC) AS place
            FROM alike
        )
        SELECT m.id, m.scope, m.type, m.content, m.content_hash, m.importance, m.source, m.learned_in,
            m.document_id, m.chunk_index, m.created_at, m.last_accessed_at, near.cosine,
            near.similarity
        FROM near JOIN memories m USING (id) WHERE near.place <= :limit
        ORDER BY near.similarity DESC, m.created_at DESC
    """)


def relevant(
    connection: Connection,
    *,
    scope: Scope,
    seen: Seen,
    agent_id: str | None,
    words: Sequence[str],
    space: EmbeddingSpace | None,
    query: Vector | None,
    min_importance: float,
    limit: int,
) -> list[Row[Any]]:
    """Return live memories of the organization, the agent, the asker and the scope's sessions, nearest first.

    Only those that may be shown here. At most `limit` of each of the four and as many chunks of documents, so that a
    thick handbook leaves room for a fact. `similarity` is the `cosine`, or without vectors the share of the query's
    lexemes that the memory holds.
    """
    given = _given(scope, seen, agent_id, min_importance)
    if query is not None:
        given["query"] = literal(query)
    rows = run(connection, _relevant(None if query is None else space), **given, words=words, limit=limit)
    return [row for row in rows if seen.visible.shows(row.learned_in)]


def count_hidden(
    connection: Connection, *, scope: Scope, seen: Seen, agent_id: str | None, min_importance: float
) -> int:
    """Count the memories that are hidden because of where they were learned, whatever is asked."""
    return number(connection, _COUNT_HIDDEN, **_given(scope, seen, agent_id, min_importance))


def _given(scope: Scope, seen: Seen, agent_id: str | None, min_importance: float) -> dict[str, Any]:
    return {
        "chat": scope.chat_id,
        "key": scope.session_key,
        "sessions": SESSIONS,
        "users": seen.asker_ids,
        "agent": agent_id,
        "min_importance": min_importance,
        "everywhere": seen.visible.everywhere,
        "chats": sorted(seen.visible.chats),
    }


def listing(
    connection: Connection, given: MemoryFilter, users: Sequence[str] | None, visible: Visible | None
) -> list[Memory]:
    """Return live memories, newest first, of these ids of a person and visible in a place, where given."""
    which = {"scope": given.scope, "agent": given.agent_id, "after": given.after, "limit": given.limit}
    places = None if visible is None or visible.everywhere else sorted(visible.chats)
    found = [Memory(**row._mapping) for row in run(connection, _LISTING, **which, users=users, chats=places)]
    return [memory for memory in found if visible is None or visible.shows(memory.learned_in)]


def delete(connection: Connection, tenant_id: str, identity: UUID) -> bool:
    """Delete a memory with its vectors and its jobs; tell whether there was one."""
    gone = run(connection, _DELETE, id=identity).rowcount
    jobs.drop(connection, tenant_id, [EMBED], [f"memory:{identity}"])
    return bool(gone)


def chat_of_session(connection: Connection, session_id: int) -> str | None:
    """Return the chat of a session, or None if there is no such session."""
    found: str | None = connection.scalar(_CHAT_OF_SESSION, {"id": session_id})
    return found


def touch(connection: Connection, ids: Sequence[str]) -> None:
    """Record that these memories were shown."""
    run(connection, _TOUCH, ids=ids)


def contents(connection: Connection, ids: Sequence[str]) -> list[tuple[UUID, str]]:
    """Return `(id, content)` of those of these memories that exist."""
    return [(row.id, row.content) for row in run(connection, _CONTENTS, ids=ids)]


# Any constant will do; with tenant and document it makes one advisory lock for each document.
REPLACING = 0x646F6373

_LOCK_DOCUMENT = text(f"SELECT pg_advisory_xact_lock(hashtextextended(:name, {REPLACING}))")


def lock_document(connection: Connection, tenant_id: str, document_id: str) -> None:
    """Wait for and take the lock of a document, so that two versions are never mixed."""
    run(connection, _LOCK_DOCUMENT, name=f"{tenant_id} {document_id}")


def put_chunks(
    connection: Connection,
    tenant_id: str,
    document: DocumentIn,
    chunks: Sequence[tuple[UUID, bytes, str]],
    importance: float,
) -> list[UUID]:
    """Write chunks `(id, content hash, text)` in order, but those that exist; return the ids of the new ones."""
    given = {"document": document.document_id, "source": document.source, "language": document.language}
    written = arrays("ids hashes contents", chunks)
    rows = run(connection, _PUT_CHUNKS, tenant=tenant_id, importance=importance, **given, **written)
    return [row.id for row in rows if row.new]


def drop_document(
    connection: Connection, tenant_id: str, document_id: str, *, keep: Sequence[bytes] = ()
) -> int:
    """Delete a document's chunks but those with these hashes, with vectors and jobs; return how many."""
    gone = column(connection, _DROP_DOCUMENT, document=document_id, keep=keep)
    jobs.drop(connection, tenant_id, [EMBED], [f"memory:{each}" for each in gone])
    return len(gone)


def list_documents(connection: Connection, given: DocumentFilter) -> list[ListedDocument]:
    """Return documents in the order of their ids."""
    rows = run(connection, _LIST_DOCUMENTS, after=given.after, limit=given.limit)
    return [ListedDocument(**row._mapping) for row in rows]


def passages(connection: Connection, document_id: str) -> list[Passage]:
    """Return a document's chunks in order; none if there is no such document."""
    rows = run(connection, _PASSAGES, document=document_id)
    return [Passage(chunk_index=row.chunk_index or 0, content=row.content) for row in rows]
