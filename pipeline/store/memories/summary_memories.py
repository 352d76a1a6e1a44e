"""SQL of the summary memory of an open session, one per session."""

from datetime import timedelta
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, Row, text

from pipeline.store.connections.statements import column, run
from pipeline.store.memories.memory_ids import new_id
from pipeline.store.vectors import vectors
from pipeline.text.duplicates import fingerprint

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
_INSERT = text("""
    INSERT INTO memories (tenant_id, id, scope, type, session_id, content, content_hash, expires_at, lives_for, source,
        source_session_id, learned_in, language)
    SELECT :tenant, :id, 'session', 'summary', :session, :content, :hash, now() + :lives_for, :lives_for, 'rolling',
        :session, :chat, :language
    ON CONFLICT DO NOTHING RETURNING id
""")


def save(
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
        if vectors.exist(connection):
            run(connection, "DELETE FROM memory_vectors WHERE memory_id = :id", id=known)
        return known
    row = {"tenant": tenant_id, "id": new_id(), "chat": session.chat_id, "language": language}
    return next(iter(column(connection, _INSERT, **row, **values)), None)
