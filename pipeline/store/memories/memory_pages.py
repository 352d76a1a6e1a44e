"""SQL of a person's page: present and former memories of them visible in a place, and their messages."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, Row, text

from pipeline.store.chats.membership import Visible
from pipeline.store.connections.statements import run
from pipeline.store.memories.memory_conditions import learned_visibly, since

# Only visible memories supersede in a place.
_PAGE = text(f"""
    WITH known AS (
        SELECT m.*, {since("m")} AS since, newer.superseded_by,
            m.retracted_at IS NOT NULL OR newer.superseded_by IS NOT NULL AS is_earlier
        FROM memories m CROSS JOIN LATERAL (
            SELECT jsonb_agg(jsonb_build_object(
                'id', n.id, 'content', n.content, 'since', n.since) ORDER BY n.since, n.id) AS superseded_by
            FROM memory_supersessions e CROSS JOIN LATERAL (
                SELECT n.id, n.content, {since("n")} AS since FROM memories n
                WHERE n.tenant_id = e.tenant_id AND n.id = e.superseded_by AND {learned_visibly("n")}) n
            WHERE e.tenant_id = m.tenant_id AND e.memory_id = m.id AND n.since <= now()) newer
        WHERE m.scope = 'user' AND m.user_id = ANY(:users) AND m.type <> 'document'
            AND (m.expires_at IS NULL OR m.expires_at > now()) AND {learned_visibly("m")}
    ), last AS (
        SELECT is_earlier, since, id FROM known WHERE id = CAST(:after AS uuid)
    )
    SELECT k.id, k.type, k.content, k.subject AS about, k.since, k.holds_from, k.holds_until, k.learned_in, k.also_in,
        k.confidence, k.importance, k.access_count, k.last_accessed_at, k.expires_at, k.learned_by, k.source,
        k.edited_at, k.retracted_at, coalesce(k.superseded_by, '[]') AS superseded_by, k.is_earlier
    FROM known k LEFT JOIN last ON true
    WHERE CAST(:after AS uuid) IS NULL OR k.is_earlier > last.is_earlier
        OR k.is_earlier = last.is_earlier AND (k.since, k.id) < (last.since, last.id)
    ORDER BY k.is_earlier, k.since DESC, k.id DESC LIMIT :limit
""")
_EVIDENCE = text("""
    SELECT memory_id, chat_id, external_id, sender_id, said_at FROM (
        SELECT e.memory_id, e.chat_id, m.external_id, e.sender_id, e.said_at,
            row_number() OVER (PARTITION BY e.memory_id ORDER BY e.said_at DESC, e.message_id DESC) AS place
        FROM memory_evidence e
        JOIN messages m ON m.tenant_id = e.tenant_id AND m.chat_id = e.chat_id AND m.id = e.message_id
        WHERE e.memory_id = ANY(:memories) AND (:everywhere OR e.chat_id = ANY(:chats))) latest
    WHERE place <= :limit ORDER BY memory_id, place DESC
""")
_TITLES = text("SELECT chat_id, title FROM chats WHERE chat_id = ANY(:ids)")


def known(
    connection: Connection, users: Sequence[str], visible: Visible, *, after: UUID | None, limit: int
) -> Sequence[Row[Any]]:
    """Return memories of a person that may be shown in a place: believed ones, then former ones."""
    return run(connection, _PAGE, users=users, after=after, limit=limit, **visible.parameters()).all()


def messages(
    connection: Connection, memory_ids: Sequence[UUID], visible: Visible, limit: int
) -> Sequence[Row[Any]]:
    """Return the messages of visible chats that state these memories, the latest `limit` of each, in order."""
    return run(connection, _EVIDENCE, memories=memory_ids, limit=limit, **visible.parameters()).all()


def titles(connection: Connection, chat_ids: Sequence[str]) -> dict[str, str]:
    """Return the titles of the chats that exist."""
    return {row.chat_id: row.title for row in run(connection, _TITLES, ids=chat_ids)}
