"""SQL of memories and documents: write, change, delete, record their use; `memory_search` finds them."""

import secrets
import time
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

from sqlalchemy import Connection, Row, text

from pipeline.store import vectors
from pipeline.store.chats.membership import Seen
from pipeline.store.connections.statements import arrays, column, run
from pipeline.store.jobs import jobs
from pipeline.store.memories import memory_conditions as conditions
from pipeline.text.duplicates import fingerprint
from schemas.kinds import EMBED, FENCED_BY_CHANGE
from schemas.memories import DocumentFilter, DocumentIn, ListedDocument, MemoryIn, Passage

_SAME = """(tenant_id, scope, coalesce(session_id, 0), coalesce(user_id, ''), coalesce(agent_id, ''),
        coalesce(document_id, ''), content_hash)"""
_INSERT = text(f"""
    INSERT INTO memories (tenant_id, id, scope, type, session_id, user_id, agent_id, content, content_hash,
        importance, expires_at, lives_for, said_at, source, learned_in, document_id, chunk_index, metadata, language)
    VALUES (:tenant, :id, :scope, :type, :session_id, :user_id, :agent_id, :content, :hash, :importance,
        coalesce(:expires_at, now() + :lives_for), :lives_for, :said_at, :source, :learned_in, :document_id,
        :chunk_index, :metadata, :language)
    ON CONFLICT {_SAME} DO UPDATE SET importance = greatest(memories.importance, excluded.importance),
        expires_at = greatest(memories.expires_at, excluded.expires_at)
    RETURNING id, (xmax = 0) AS new
""")
_CHAT_OF_SESSION = text("SELECT chat_id FROM conversation_sessions WHERE id = :id AND status <> 'merged'")
TOUCH = """
    UPDATE memories SET access_count = access_count + 1, last_accessed_at = now(),
        expires_at = greatest(expires_at, now() + lives_for)
    WHERE id = ANY(CAST(:ids AS uuid[]))
"""
"""SQL that records that memories were shown and extends limited lifetimes."""
_TOUCH = text(TOUCH)
_VISIBLE = text(
    f"SELECT id FROM memories m WHERE id = ANY(CAST(:ids AS uuid[])) AND {conditions.visible('m')}"
)
_CONTENTS = text("SELECT id, content FROM memories WHERE id = ANY(CAST(:ids AS uuid[]))")
_PUT_CHUNKS = text(f"""
    INSERT INTO memories (tenant_id, id, scope, type, user_id, content, content_hash, importance, source,
        document_id, chunk_index, language)
    SELECT :tenant, chunk.id, CASE WHEN CAST(:user AS text) IS NULL THEN 'organization' ELSE 'user' END, 'document',
        :user, chunk.content, chunk.hash, :importance, :source, :document, chunk.place - 1, :language
    FROM unnest(CAST(:ids AS uuid[]), CAST(:hashes AS bytea[]), CAST(:contents AS text[]))
        WITH ORDINALITY AS chunk (id, hash, content, place)
    ON CONFLICT {_SAME} DO UPDATE SET source = excluded.source, language = excluded.language
    RETURNING id, (xmax = 0) AS new
""")
# the organization's, or a person's by all their ids
_DOCUMENTS = """type = 'document' AND CASE WHEN CAST(:users AS text[]) IS NULL THEN scope = 'organization'
    ELSE scope = 'user' AND user_id = ANY(:users) END"""
_OF_DOCUMENT = f"{_DOCUMENTS} AND document_id = :document"
_DROP_DOCUMENT = text(
    f"DELETE FROM memories WHERE {_OF_DOCUMENT} AND NOT content_hash = ANY(:keep) RETURNING id"
)
_LIST_DOCUMENTS = text(f"""
    SELECT document_id, max(user_id) AS user_id, max(source) AS source, max(language) AS language,
        count(*) AS chunks, max(created_at) AS changed_at
    FROM memories
    WHERE {_DOCUMENTS} AND document_id IS NOT NULL
        AND (CAST(:after AS text) IS NULL OR document_id COLLATE "C" > :after)
    GROUP BY document_id ORDER BY document_id COLLATE "C" LIMIT :limit
""")
_PASSAGES = text(
    f"SELECT chunk_index, content FROM memories WHERE {_OF_DOCUMENT} ORDER BY user_id, chunk_index"
)
_ID_OF_OWNER = text(f"SELECT user_id FROM memories WHERE {_OF_DOCUMENT} ORDER BY user_id LIMIT 1")


def insert(
    connection: Connection,
    tenant_id: str,
    identity: UUID,
    memory: MemoryIn,
    content_hash: bytes,
    language: str,
    lives_for: timedelta | None = None,
) -> tuple[UUID, bool]:
    """Write a memory, or keep the one with the same statement and scope; return `(its id, whether it is new)`.

    One that `lives_for` some time expires that long after it was last written or shown.
    """
    values = {"tenant": tenant_id, "id": identity, "hash": content_hash, "language": language}
    row = run(connection, _INSERT, **memory.model_dump(exclude={"v"}), **values, lives_for=lives_for).one()
    return row.id, bool(row.new)


def delete(connection: Connection, tenant_id: str, identity: UUID) -> bool:
    """Delete a memory with its vectors and its jobs; return whether it existed."""
    gone = run(connection, "DELETE FROM memories WHERE id = :id", id=identity).rowcount
    jobs.drop(connection, tenant_id, FENCED_BY_CHANGE, [f"memory:{identity}"])
    return bool(gone)


def chat_of_session(connection: Connection, session_id: int) -> str | None:
    """Return the chat of a session, or None if there is no such session."""
    return next(iter(column(connection, _CHAT_OF_SESSION, id=session_id)), None)


def touch(connection: Connection, ids: Sequence[str]) -> None:
    """Record that these memories were shown, and extend limited lifetimes."""
    run(connection, _TOUCH, ids=ids)


def visible(connection: Connection, ids: Sequence[str], seen: Seen | None) -> set[str]:
    """Return those of these memories that may be shown."""
    return set(map(str, column(connection, _VISIBLE, ids=ids, **conditions.visibility(seen))))


def contents(connection: Connection, ids: Sequence[str]) -> list[tuple[UUID, str]]:
    """Return `(id, content)` of those of these memories that exist."""
    return [(row.id, row.content) for row in run(connection, _CONTENTS, ids=ids)]


# Any constant will do; with tenant and document it makes one advisory lock for each document.
REPLACING = 0x646F6373

_LOCK_DOCUMENT = text(f"SELECT pg_advisory_xact_lock(hashtextextended(:name, {REPLACING}))")


def lock_document(
    connection: Connection, tenant_id: str, document_id: str, users: Sequence[str] | None = None
) -> None:
    """Wait for the lock of the organization's or a person's document, so that two versions never mix."""
    run(connection, _LOCK_DOCUMENT, name=" ".join([tenant_id, document_id, *(users or ())[:1]]))


def id_of_owner(connection: Connection, document_id: str, users: Sequence[str]) -> str | None:
    """Return the id of a person under which a document is stored; None if they do not have it."""
    return next(iter(column(connection, _ID_OF_OWNER, document=document_id, users=users)), None)


def put_chunks(
    connection: Connection,
    tenant_id: str,
    document: DocumentIn,
    chunks: Sequence[tuple[UUID, bytes, str]],
    importance: float,
) -> list[UUID]:
    """Write the chunks `(id, content hash, text)` that do not exist, in order; return their ids."""
    values = {"document": document.document_id, "source": document.source, "language": document.language}
    written = arrays("ids hashes contents", chunks)
    rows = run(
        connection,
        _PUT_CHUNKS,
        tenant=tenant_id,
        user=document.user_id,
        importance=importance,
        **values,
        **written,
    )
    return [row.id for row in rows if row.new]


def drop_document(
    connection: Connection,
    tenant_id: str,
    document_id: str,
    users: Sequence[str] | None = None,
    *,
    keep: Sequence[bytes] = (),
) -> int:
    """Delete the chunks of the organization's or a person's document, except these hashes; return how many.

    Their vectors and jobs go with them.
    """
    gone = column(connection, _DROP_DOCUMENT, document=document_id, users=users, keep=keep)
    jobs.drop(connection, tenant_id, [EMBED], [f"memory:{i}" for i in gone])
    return len(gone)


def list_documents(
    connection: Connection, filters: DocumentFilter, users: Sequence[str] | None = None
) -> list[ListedDocument]:
    """Return documents of the organization or a person, in the order of their ids."""
    rows = run(connection, _LIST_DOCUMENTS, users=users, after=filters.after, limit=filters.limit)
    return [ListedDocument(**row._mapping) for row in rows]


def passages(connection: Connection, document_id: str, users: Sequence[str] | None = None) -> list[Passage]:
    """Return the chunks of a document of the organization or a person in order; none if there is no such document."""
    rows = run(connection, _PASSAGES, document=document_id, users=users)
    return [Passage(chunk_index=row.chunk_index or 0, content=row.content) for row in rows]


def new_id() -> UUID:
    """Return a UUID that sorts by the time it was made (RFC 9562, version 7)."""
    milliseconds = time.time_ns() // 1_000_000
    value = (milliseconds << 80) | secrets.randbits(80)
    value = (value & ~(0xF << 76)) | (0x7 << 76)
    return UUID(int=(value & ~(0x3 << 62)) | (0x2 << 62))


# of merged sessions the latest summary stays
_OWN = "scope = 'session' AND session_id = :session AND type = 'summary' AND source = 'rolling'"
_DROP_OTHERS = text(f"""
    DELETE FROM memories WHERE {_OWN}
        AND id <> (SELECT id FROM memories WHERE {_OWN} ORDER BY id DESC LIMIT 1)
""")
_UPDATE = text(f"""
    UPDATE memories m SET content = :content, content_hash = :hash, lives_for = :lives_for,
        expires_at = now() + :lives_for
    WHERE {_OWN} AND NOT EXISTS (
        SELECT 1 FROM memories twin WHERE twin.scope = 'session' AND twin.session_id = :session AND twin.id <> m.id
            AND twin.content_hash = :hash)
    RETURNING id
""")
# It is found by its session, and deleted when anything in that is erased.
_SUMMARY_INSERT = text("""
    INSERT INTO memories (tenant_id, id, scope, type, session_id, content, content_hash, expires_at, lives_for, source,
        source_session_id, learned_in, language)
    SELECT :tenant, :id, 'session', 'summary', :session, :content, :hash, now() + :lives_for, :lives_for, 'rolling',
        :session, :chat, :language
    ON CONFLICT DO NOTHING RETURNING id
""")


def save_summary(
    connection: Connection,
    tenant_id: str,
    session: Row[Any],
    content: str,
    language: str,
    lives_for: timedelta,
) -> UUID | None:
    """Write the summary memory of an open session, replacing the former one; return its id.

    None: another memory of the session says the same.
    """
    values = {
        "session": session.id,
        "content": content,
        "hash": fingerprint(content, session.chat_id),
        "lives_for": lives_for,
    }
    run(connection, _DROP_OTHERS, session=session.id)
    known: UUID | None = run(connection, _UPDATE, **values).scalar_one_or_none()
    if known is not None:
        drop_vectors(connection, known)
        return known
    row = {"tenant": tenant_id, "id": new_id(), "chat": session.chat_id, "language": language}
    return next(iter(column(connection, _SUMMARY_INSERT, **row, **values)), None)


_LOCKED = text("""
    SELECT id, scope, type, session_id, user_id, agent_id, content, content_hash, importance, expires_at, lives_for,
        subject, attribute, coalesce(said_at, created_at) AS since, retracted_at, learned_in, also_in, metadata,
        language, now() AS now
    FROM memories WHERE id = :id AND (expires_at IS NULL OR expires_at > now()) FOR UPDATE
""")
# as in the unique index `memories_content`; no document's chunk is changed
_TWIN = text("""
    SELECT id FROM memories WHERE id <> :id AND scope = :scope AND coalesce(session_id, 0) = coalesce(:session, 0)
        AND coalesce(user_id, '') = coalesce(:user, '') AND coalesce(agent_id, '') = coalesce(:agent, '')
        AND document_id IS NULL AND content_hash = :hash
""")
_REWORD = text(
    "UPDATE memories SET content = :content, content_hash = :hash, edited_at = now() WHERE id = :id"
)
_SET_IMPORTANCE = text("UPDATE memories SET importance = :importance WHERE id = :id")
_SET_EXPIRY = text("UPDATE memories SET expires_at = :expires_at, lives_for = NULL WHERE id = :id")
_MERGE_METADATA = text("""
    UPDATE memories SET metadata = (metadata || CAST(:set AS jsonb)) - CAST(:removed AS text[]) WHERE id = :id
""")
# It no longer expires with its session.
_PROMOTE = text("""
    UPDATE memories SET scope = :scope, session_id = NULL, user_id = :user, agent_id = :agent,
        promoted_from = coalesce(user_id, promoted_from),
        expires_at = CASE WHEN lives_for IS NULL THEN expires_at END, lives_for = NULL
    WHERE id = :id
""")
_RETRACT = text("UPDATE memories SET retracted_at = coalesce(retracted_at, :at) WHERE id = :id")
_DESCRIBE = text("""
    UPDATE memories m SET subject = old.subject, attribute = old.attribute, value = lower(m.content),
        said_at = CASE WHEN coalesce(m.said_at, m.created_at) > coalesce(old.said_at, old.created_at)
            THEN m.said_at ELSE :at END,
        importance = greatest(m.importance, old.importance), expires_at = old.expires_at, lives_for = old.lives_for,
        promoted_from = coalesce(m.promoted_from, old.promoted_from),
        also_in = ARRAY(
            SELECT DISTINCT chat FROM unnest(m.also_in || CAST(:chats AS text[])) AS chat
            WHERE chat IS DISTINCT FROM m.learned_in ORDER BY chat)
    FROM memories old WHERE m.id = :id AND old.id = :old
""")
# Whatever the old one supersedes is superseded by the new one, too, and stays so when the old one is gone.
_SUPERSEDE = text("""
    INSERT INTO memory_supersessions (tenant_id, memory_id, superseded_by)
    SELECT :tenant, memory_id, CAST(:new AS uuid) FROM (
        SELECT CAST(:old AS uuid) AS memory_id
        UNION SELECT memory_id FROM memory_supersessions WHERE superseded_by = :old) AS older
    WHERE memory_id <> :new
    ON CONFLICT DO NOTHING
""")
# What was said later still supersedes it.
_REVIVE = text("""
    WITH turned AS (
        DELETE FROM memory_supersessions e USING memories newer
        WHERE e.memory_id = :id AND newer.id = e.superseded_by
            AND coalesce(newer.said_at, newer.created_at) < :at
        RETURNING e.superseded_by
    ), superseded AS (
        INSERT INTO memory_supersessions (tenant_id, memory_id, superseded_by)
        SELECT :tenant, superseded_by, :id FROM turned ON CONFLICT DO NOTHING
    )
    UPDATE memories SET retracted_at = NULL, said_at = :at, learned_by = '', confidence = 1
    WHERE id = :id AND (retracted_at < :at OR EXISTS (SELECT 1 FROM turned))
""")


class Owner(NamedTuple):
    """The scope of a memory, and its owner in that scope."""

    scope: str
    session: int | None
    user: str | None
    agent: str | None


def learned_in(connection: Connection, identity: UUID) -> str | None:
    """Return the chat where a memory was learned; None also where there is no such memory."""
    return next(iter(column(connection, "SELECT learned_in FROM memories WHERE id = :id", id=identity)), None)


def locked(connection: Connection, identity: UUID) -> Row[Any] | None:
    """Return a live memory, locked, with the time `now`."""
    return run(connection, _LOCKED, id=identity).one_or_none()


def twin(connection: Connection, identity: UUID, owner: Owner, content_hash: bytes) -> UUID | None:
    """Return another memory of this owner with the same words."""
    other: UUID | None = run(
        connection, _TWIN, id=identity, hash=content_hash, **owner._asdict()
    ).scalar_one_or_none()
    return other


def reword(connection: Connection, identity: UUID, content: str, content_hash: bytes) -> None:
    """Replace a memory's words, and delete the vectors of the former ones."""
    run(connection, _REWORD, id=identity, content=content, hash=content_hash)
    drop_vectors(connection, identity)


def drop_vectors(connection: Connection, identity: UUID) -> None:
    """Delete the vectors of a memory."""
    if vectors.exist(connection):
        run(connection, "DELETE FROM memory_vectors WHERE memory_id = :id", id=identity)


def set_importance(connection: Connection, identity: UUID, importance: float) -> None:
    """Set a memory's importance."""
    run(connection, _SET_IMPORTANCE, id=identity, importance=importance)


def set_expiry(connection: Connection, identity: UUID, expires_at: datetime | None) -> None:
    """Set when a memory expires, whether it is used or not; None: never."""
    run(connection, _SET_EXPIRY, id=identity, expires_at=expires_at)


def merge_metadata(connection: Connection, identity: UUID, metadata: Mapping[str, Any]) -> None:
    """Set keys of a memory's metadata, and remove those that are null."""
    kept = {key: value for key, value in metadata.items() if value is not None}
    run(connection, _MERGE_METADATA, id=identity, set=kept, removed=list(metadata.keys() - kept.keys()))


def promote(connection: Connection, identity: UUID, owner: Owner) -> None:
    """Give a memory to another owner, record the former one, and drop a session's expiry."""
    run(connection, _PROMOTE, id=identity, scope=owner.scope, user=owner.user, agent=owner.agent)


def retract(connection: Connection, identity: UUID, at: datetime) -> None:
    """Record when a memory was found to be wrong; memories that it superseded are believed again."""
    run(connection, _RETRACT, id=identity, at=at)
    run(connection, "DELETE FROM memory_supersessions WHERE superseded_by = :id", id=identity)


def supersede(
    connection: Connection, tenant_id: str, old: UUID, new: UUID, *, at: datetime, also_in: list[str]
) -> None:
    """Supersede a memory by another one of the same owner, said at a time, and in these chats too."""
    run(connection, _DESCRIBE, id=new, old=old, at=at, chats=also_in)
    run(connection, _SUPERSEDE, tenant=tenant_id, old=old, new=new)


def revive(connection: Connection, tenant_id: str, identity: UUID, at: datetime) -> bool:
    """Believe a memory again that is wrong or superseded, as it was said by hand then; tell whether it was either.

    What superseded it before then is superseded by it. It rests on no messages any more.
    """
    revived = run(connection, _REVIVE, tenant=tenant_id, id=identity, at=at).rowcount > 0
    if revived:
        run(connection, "DELETE FROM memory_evidence WHERE memory_id = :id", id=identity)
    return revived
