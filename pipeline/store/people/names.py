"""SQL that gives senders who are known by name only an id for each of their chats."""

from collections.abc import Sequence
from typing import Any, NamedTuple
from uuid import UUID

from sqlalchemy import Connection, Row, text

from pipeline.store.chats.membership import IS_SILENT
from pipeline.store.connections.statements import column, number, run
from pipeline.store.memories import entity_graph

BEFORE = "whatsapp:"
"""Ids of this and a name were one in all chats; no other platform had ids made of names."""

# Read from an export, which named the sender and numbered nobody; a moved message has its former chat in front.
_BY_NAME = f"""m.sender_id = '{BEFORE}' || m.sender_name
    AND (starts_with(m.external_id, :derived) OR strpos(m.external_id, '/' || :derived) > 0)"""
_MEMBERS = text(f"""
    SELECT c.sender_id, c.chat_id, coalesce(said.by_name, 0) AS by_name, coalesce(said.others, 0) AS others
    FROM chat_members c LEFT JOIN LATERAL (
        SELECT count(*) FILTER (WHERE {_BY_NAME}) AS by_name, count(*) FILTER (WHERE NOT ({_BY_NAME})) AS others
        FROM messages m WHERE m.tenant_id = c.tenant_id AND m.chat_id = c.chat_id AND m.sender_id = c.sender_id
    ) said ON true
    WHERE starts_with(c.sender_id, '{BEFORE}') ORDER BY c.sender_id, c.chat_id
""")
_MESSAGES = text(f"""
    UPDATE messages SET sender_id = :new WHERE chat_id = :chat AND id = ANY(ARRAY(
        SELECT id FROM messages m WHERE m.chat_id = :chat AND m.sender_id = :old AND {_BY_NAME} LIMIT :limit))
""")
_JOIN = text("""
    INSERT INTO chat_members (tenant_id, chat_id, sender_id) VALUES (:tenant, :chat, :new) ON CONFLICT DO NOTHING
""")
_MADE = (
    text("UPDATE memory_evidence SET sender_id = :new WHERE chat_id = :chat AND sender_id = :old"),
    text("""
        WITH moved AS (
            DELETE FROM pruned_senders WHERE sender_id = :old
                AND session_id IN (SELECT id FROM conversation_sessions WHERE chat_id = :chat)
            RETURNING tenant_id, session_id
        )
        INSERT INTO pruned_senders (tenant_id, session_id, sender_id)
        SELECT tenant_id, session_id, :new FROM moved ON CONFLICT DO NOTHING
    """),
    text("UPDATE query_log SET user_id = :new WHERE chat_id = :chat AND user_id = :old"),
    # bots may use the name as a person's id, too
    text(f"DELETE FROM chat_members c WHERE chat_id = :chat AND sender_id = :old AND {IS_SILENT}"),
)
_MEMORIES = text("""
    SELECT id, learned_by, array_remove(ARRAY[learned_in] || also_in, NULL) AS chats FROM memories
    WHERE scope = 'user' AND user_id = :old
        AND (learned_in = :chat OR :chat = ANY(also_in) OR (:alone AND learned_in IS NULL))
    ORDER BY id FOR UPDATE
""")
_PROMOTED = text("""
    UPDATE memories SET promoted_from = :new
    WHERE promoted_from = :old AND (learned_in = :chat OR (:alone AND learned_in IS NULL))
""")
# Two memories of one owner may have the same words, as where the owner had said so under the new id already.
_HASH = """CASE WHEN EXISTS (
        SELECT 1 FROM memories twin WHERE twin.scope = 'user' AND twin.user_id = :new AND twin.id <> m.id
            AND coalesce(twin.document_id, '') = coalesce(m.document_id, '') AND twin.content_hash = m.content_hash)
    THEN decode(md5(m.content_hash::text || m.id::text), 'hex') ELSE m.content_hash END"""
_GIVE = text(f"UPDATE memories m SET user_id = :new, content_hash = {_HASH} WHERE id = CAST(:id AS uuid)")
_COPIED = """tenant_id, scope, type, agent_id, content, importance, access_count, last_accessed_at, expires_at,
    lives_for, source, source_session_id, source_message_ids, document_id, chunk_index, metadata, language, created_at,
    edited_at, subject, attribute, value, confidence, said_at, holds_from, holds_until, learned_by, retracted_at,
    promoted_from"""
_COPY = text(f"""
    INSERT INTO memories (id, user_id, learned_in, content_hash, {_COPIED})
    SELECT CAST(:copy AS uuid), :new, :chat, {_HASH}, {_COPIED} FROM memories m WHERE id = CAST(:id AS uuid)
""")
_LEAVE = text("""
    UPDATE memories m SET learned_in = left_in.chats[1], also_in = left_in.chats[2:]
    FROM (SELECT array_remove(ARRAY[learned_in] || also_in, :chat) AS chats FROM memories
        WHERE id = CAST(:id AS uuid)) left_in
    WHERE m.id = CAST(:id AS uuid)
""")
_COPY_MADE = (
    text("UPDATE memory_evidence SET memory_id = :copy WHERE memory_id = :id AND chat_id = :chat"),
    text("""
        INSERT INTO memory_supersessions (tenant_id, memory_id, superseded_by)
        SELECT tenant_id, CAST(:copy AS uuid), superseded_by FROM memory_supersessions WHERE memory_id = :id
        UNION SELECT tenant_id, memory_id, CAST(:copy AS uuid) FROM memory_supersessions WHERE superseded_by = :id
        ON CONFLICT DO NOTHING
    """),
)
_RENAME_ENTITIES = text("""
    UPDATE memory_entities e SET user_id = :new FROM memories m
    WHERE m.tenant_id = e.tenant_id AND m.id = e.memory_id AND e.user_id = :old
        AND (m.learned_in = :chat OR (m.scope = 'user' AND m.user_id = :new))
""")
_PART = text("""
    DELETE FROM memory_supersessions e USING memories older, memories newer
    WHERE older.id = e.memory_id AND newer.id = e.superseded_by
        AND older.scope = 'user' AND newer.scope = 'user'
        AND (older.user_id = :new AND newer.user_id = :old OR older.user_id = :old AND newer.user_id = :new)
""")
_SESSIONS = text(
    "SELECT id FROM conversation_sessions WHERE chat_id = :chat AND status <> 'merged' ORDER BY id"
)
_LEFT = text("SELECT count(*) FROM memories WHERE user_id = :old OR promoted_from = :old")


class Member(NamedTuple):
    """An id that may be a name, in one chat."""

    sender_id: str
    chat_id: str
    # messages of an export that has only the name
    by_name: int
    others: int


def members(connection: Connection, derived: str) -> list[Member]:
    """Return the members whose id may be a name, chat by chat; `derived` begins the ids of an export's messages."""
    return [Member(*row) for row in run(connection, _MEMBERS, derived=derived)]


def rename_messages(
    connection: Connection, tenant_id: str, chat_id: str, old: str, new: str, *, derived: str, limit: int
) -> int:
    """Give up to `limit` messages of a chat that have an id by name another one; return how many."""
    values = {"chat": chat_id, "old": old, "new": new}
    run(connection, _JOIN, tenant=tenant_id, chat=chat_id, new=new)
    return run(connection, _MESSAGES, derived=derived, limit=limit, **values).rowcount


def rename_made(connection: Connection, chat_id: str, old: str, new: str) -> list[str]:
    """Rename a sender in data derived from messages of a chat, except memories; return its sessions' job keys."""
    values = {"chat": chat_id, "old": old, "new": new}
    for statement in _MADE:
        run(connection, statement, **values)
    return [f"session:{i}" for i in column(connection, _SESSIONS, chat=chat_id)]


def memories(connection: Connection, chat_id: str, old: str, *, alone: bool) -> Sequence[Row[Any]]:
    """Lock and return memories `(id, learned_by, chats)` of a user that were learned in a chat.

    `alone`: the user is in no other chat, so that what was learned in no chat is theirs, too.
    """
    return run(connection, _MEMORIES, chat=chat_id, old=old, alone=alone).all()


def give(connection: Connection, memory_id: UUID, new: str) -> None:
    """Give a memory to a user."""
    run(connection, _GIVE, id=memory_id, new=new)


def rename_entities(connection: Connection, chat_id: str, old: str, new: str) -> None:
    """Let memories that were learned in a chat name a user by their new id, after `give` and `split`."""
    run(connection, _RENAME_ENTITIES, chat=chat_id, old=old, new=new)


def give_promoted(connection: Connection, chat_id: str, old: str, new: str, *, alone: bool) -> None:
    """Rename the former owner of promoted memories, as far as they were learned in a chat."""
    run(connection, _PROMOTED, chat=chat_id, old=old, new=new, alone=alone)


def split(connection: Connection, memory_id: UUID, copy: UUID, chat_id: str, new: str) -> None:
    """Copy a memory, as far as it was learned in one of its chats, for another user."""
    values = {"id": memory_id, "copy": copy, "chat": chat_id}
    run(connection, _COPY, new=new, **values)
    for statement in _COPY_MADE:
        run(connection, statement, **values)
    entity_graph.copy(connection, memory_id, copy)
    run(connection, _LEAVE, id=memory_id, chat=chat_id)


def drop_supersessions(connection: Connection, old: str, new: str) -> None:
    """Drop the supersessions between memories of two users."""
    run(connection, _PART, old=old, new=new)


def memories_left(connection: Connection, old: str) -> int:
    """Count the memories that are or were a user's."""
    return number(connection, _LEFT, old=old)
