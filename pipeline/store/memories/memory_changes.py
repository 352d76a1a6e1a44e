"""SQL of manual changes of memories: rewording, promotion, supersession, retraction."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from sqlalchemy import Connection, Row, text

from pipeline.store import vectors
from pipeline.store.connections.statements import column, run

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
