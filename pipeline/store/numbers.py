"""SQL of numbers that moved on: until when somebody had one, and their rows, which get their new id.

Whatever was said under a number up to then is under the new id, and what is said later is somebody else's. Times are
compared as they were told, as a message from the future is stored with the time of its arrival.
"""

import re
from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import Connection, Row, text

from pipeline.store.connections.statements import run

_OF = text("SELECT id, until, new_id FROM changed_numbers WHERE id = ANY(:ids) ORDER BY until")
_PUT = text("""
    INSERT INTO changed_numbers (tenant_id, id, until, new_id) VALUES (:tenant, :id, :until, :new)
    ON CONFLICT DO NOTHING
""")
_FORMER = text("""
    WITH RECURSIVE before AS (
        SELECT id, until FROM changed_numbers WHERE new_id = ANY(:ids)
        UNION SELECT c.id, c.until FROM changed_numbers c JOIN before b ON c.new_id = b.id AND c.until <= b.until
    ) SELECT id, max(until) AS until FROM before GROUP BY id ORDER BY id
""")
_FORGET = text("DELETE FROM changed_numbers WHERE new_id = ANY(:ids)")


def told(message: str) -> str:
    """Return SQL of the time that a message said it was sent at."""
    return f"coalesce(CAST({message}.metadata ->> 'original_sent_at' AS timestamptz), {message}.sent_at)"


class Change(NamedTuple):
    """A number that somebody had until then."""

    id: str
    until: datetime
    new_id: str


class Ago(NamedTuple):
    """A number of long ago, all of whose messages up to then are under another id."""

    id: str
    until: datetime


def of_chat(chat_id: str) -> tuple[str, str]:
    """Return whose direct chat an id would be, and the account of ours in it, with its `@`, or nothing.

    >>> of_chat("whatsapp:351911000@222"), of_chat("whatsapp:99@lid@222")
    (('whatsapp:351911000', '@222'), ('whatsapp:99@lid', '@222'))
    """
    # an id in place of a number says so
    match = re.match(r"[^@]*(?:@lid(?![^@]))?", chat_id)
    number = match[0] if match else chat_id
    return number, chat_id.removeprefix(number)


def changes(connection: Connection, ids: Collection[str]) -> dict[str, list[Change]]:
    """Return the changes of these ids, and of those that they became, by time."""
    found: dict[str, list[Change]] = {}
    while missing := sorted(set(ids) - found.keys()):
        found |= {any_id: [] for any_id in missing}
        for row in run(connection, _OF, ids=missing):
            found[row.id].append(Change(*row))
        ids = {change.new_id for listed in found.values() for change in listed}
    return {any_id: listed for any_id, listed in found.items() if listed}


def put(connection: Connection, tenant_id: str, change: Change) -> bool:
    """Note that a number moved on; False if that is known."""
    values = {"id": change.id, "until": change.until, "new": change.new_id}
    return bool(run(connection, _PUT, tenant=tenant_id, **values).rowcount)


def former(connection: Connection, ids: Collection[str]) -> list[Ago]:
    """Return the numbers that people of these ids had before, each with the time up to which they had it."""
    return [Ago(*row) for row in run(connection, _FORMER, ids=list(ids))]


def forget(connection: Connection, ids: Collection[str]) -> int:
    """Forget which numbers became these ids."""
    return run(connection, _FORGET, ids=list(ids)).rowcount


def successor_came(connection: Connection, change: Change, chat_ids: Collection[str]) -> datetime:
    """Return when the first message arrived that is not the former owner's; the present if there is none."""
    statement = f"""
        SELECT coalesce(min(received_at), clock_timestamp()) FROM messages m
        WHERE (sender_id = :id OR chat_id = ANY(:chats)) AND {told("m")} > :until
    """
    values = {"id": change.id, "until": change.until, "chats": list(chat_ids)}
    came: datetime = run(connection, statement, **values).scalar_one()
    return came


_SAID = f"""
    SELECT 1 FROM messages m WHERE m.tenant_id = c.tenant_id AND m.chat_id = c.chat_id AND m.sender_id = :id
        AND {told("m")}
"""
# a memory is the former owner's unless it is younger than the new one, and nobody said it before
THEIRS = """(m.created_at < :came OR EXISTS (SELECT 1 FROM memory_evidence e
    WHERE e.tenant_id = m.tenant_id AND e.memory_id = m.id AND e.said_at <= :until))"""
_SAME = """o.tenant_id = m.tenant_id AND o.scope = m.scope AND o.session_id IS NOT DISTINCT FROM m.session_id
    AND o.user_id = :new AND o.agent_id IS NOT DISTINCT FROM m.agent_id
    AND o.document_id IS NOT DISTINCT FROM m.document_id AND o.content_hash = m.content_hash"""
# in this order: each looks at what those below have not renamed yet
_RENAME = (
    f"""
    INSERT INTO chat_members (tenant_id, chat_id, sender_id, moderates)
    SELECT tenant_id, chat_id, :new, moderates FROM chat_members c WHERE sender_id = :id
        AND (EXISTS ({_SAID} <= :until) OR NOT EXISTS ({_SAID} > :until)) ON CONFLICT DO NOTHING
    """,
    f"DELETE FROM chat_members c WHERE sender_id = :id AND NOT EXISTS ({_SAID} > :until)",
    f"""
    WITH twice AS (
        SELECT m.id, o.id AS other FROM memories m JOIN memories o ON {_SAME} WHERE m.user_id = :id AND {THEIRS}
    ), kept AS (
        UPDATE memory_evidence e SET memory_id = t.other FROM twice t WHERE e.memory_id = t.id AND NOT EXISTS (
            SELECT 1 FROM memory_evidence there WHERE there.memory_id = t.other AND there.message_id = e.message_id)
    )
    DELETE FROM memories WHERE id IN (SELECT id FROM twice)
    """,
    f"UPDATE memories m SET user_id = :new WHERE user_id = :id AND {THEIRS}",
    f"UPDATE memories m SET promoted_from = :new WHERE promoted_from = :id AND {THEIRS}",
    """
    WITH theirs AS (
        DELETE FROM memory_entities n USING memories m WHERE m.id = n.memory_id AND n.user_id = :id
            AND m.user_id IS DISTINCT FROM :id AND m.created_at < :came RETURNING n.*
    )
    INSERT INTO memory_entities (tenant_id, memory_id, user_id, entity, alias, kind, name, relation, short)
    SELECT tenant_id, memory_id, :new, entity, alias, kind, name, relation, short FROM theirs ON CONFLICT DO NOTHING
    """,
    "UPDATE memory_evidence SET sender_id = :new WHERE sender_id = :id AND said_at <= :until",
    """
    WITH theirs AS (
        DELETE FROM pruned_senders p USING conversation_sessions s WHERE s.tenant_id = p.tenant_id
            AND s.id = p.session_id AND p.sender_id = :id AND s.started_at <= :until RETURNING p.*
    )
    INSERT INTO pruned_senders (tenant_id, sender_id, session_id)
    SELECT tenant_id, :new, session_id FROM theirs ON CONFLICT DO NOTHING
    """,
    """
    UPDATE pending_changes p SET sender_id = :new WHERE sender_id = :id AND edited_at <= :until AND NOT EXISTS (
        SELECT 1 FROM pending_changes o WHERE o.tenant_id = p.tenant_id AND o.chat_id = p.chat_id
            AND o.external_id = p.external_id AND o.sender_id = :new)
    """,
    "UPDATE query_log SET user_id = :new WHERE user_id = :id AND asked_at < :came",
)


def rename(connection: Connection, change: Change, came: datetime) -> None:
    """Give all but a person's messages their new id; what came since `came`, and was said later, is another's."""
    for statement in _RENAME:
        run(connection, statement, id=change.id, new=change.new_id, until=change.until, came=came)


def rename_messages(connection: Connection, change: Change, limit: int) -> int:
    """Give up to `limit` of a person's messages their new id; return how many."""
    statement = f"""
        UPDATE messages SET sender_id = :new WHERE (chat_id, id) IN (
            SELECT chat_id, id FROM messages m WHERE sender_id = :id AND {told("m")} <= :until
            ORDER BY external_id LIMIT :limit FOR UPDATE)
    """
    values = {"id": change.id, "new": change.new_id, "until": change.until}
    return run(connection, statement, limit=limit, **values).rowcount


def links_before(connection: Connection, change: Change, came: datetime) -> Sequence[Row[Any]]:
    """Return the links `(sender_id, user_id)` of a number that are its former owner's."""
    statement = """
        SELECT sender_id, user_id FROM user_senders WHERE (user_id = :id OR sender_id = :id)
            AND CASE WHEN shown_at IS NULL THEN linked_at < :came ELSE shown_at <= :until END ORDER BY 1
    """
    return run(connection, statement, id=change.id, until=change.until, came=came).all()


FOLLOWING = (
    "UPDATE chats SET apart = true WHERE chat_id = :into AND (SELECT apart FROM chats WHERE chat_id = :chat)",
    "UPDATE digests SET chat_id = :into WHERE chat_id = :chat",
    """
    UPDATE backfills SET filter = filter || jsonb_build_object('chat_id', CAST(:into AS text))
    WHERE filter->>'chat_id' = :chat
    """,
)
"""Statements for what follows a chat `:chat`, or what was said in it, to the chat `:into`."""
_EMPTY = (
    *FOLLOWING,
    "UPDATE chats SET emptying = true WHERE chat_id = :chat",
    f"""
    WITH gone AS (
        DELETE FROM chat_members c WHERE chat_id = :chat AND NOT EXISTS (SELECT 1 FROM messages m
            WHERE m.chat_id = :chat AND m.sender_id = c.sender_id AND {told("m")} > :until) RETURNING c.*
    )
    INSERT INTO chat_members (tenant_id, chat_id, sender_id, moderates)
    SELECT tenant_id, :into, sender_id, moderates FROM gone ON CONFLICT DO NOTHING
    """,
    """
    WITH gone AS (DELETE FROM session_closes WHERE chat_id = :chat AND closed_at <= :until RETURNING *)
    INSERT INTO session_closes (tenant_id, chat_id, session_key, closed_at)
    SELECT tenant_id, :into, session_key, closed_at FROM gone ON CONFLICT DO NOTHING
    """,
    "UPDATE pending_changes SET chat_id = :into WHERE chat_id = :chat AND edited_at <= :until",
    # who was let into the former owner's chat is not let into the new one's
    *(
        f"""
        UPDATE {table} SET chats = array_remove(chats, :chat) || CASE WHEN :into = ANY(chats)
            THEN ARRAY[]::text[] ELSE ARRAY[CAST(:into AS text)] END WHERE :chat = ANY(chats)
        """
        for table in ("api_keys", "sources")
    ),
)


def begin_to_empty(connection: Connection, chat_id: str, into: str, until: datetime) -> None:
    """Show nothing of a chat until its former owner's messages are out, and move its small tables."""
    for statement in _EMPTY:
        run(connection, text(statement), chat=chat_id, into=into, until=until)


def show_again(connection: Connection, chat_id: str) -> None:
    """Show a chat whose former owner's messages are out."""
    run(connection, "UPDATE chats SET emptying = false WHERE chat_id = :chat", chat=chat_id)


def point(connection: Connection, chat_id: str, into: str | None) -> None:
    """Redirect a former id of a chat to another one; None: it is a chat of its own again."""
    run(connection, "UPDATE chats SET moved_to = :into WHERE chat_id = :chat", chat=chat_id, into=into)
