"""SQL of sessions: ranges of messages, and the markers that close them."""

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, Row, text

from schemas.sessions import THREAD, Session

COLUMNS = "id, chat_id, session_key, started_at, ended_at, message_count, participants, status, revision"


def as_session(row: Row[Any]) -> Session:
    """A row that has at least `COLUMNS`, as a value."""
    fields = {name: row._mapping[name] for name in COLUMNS.split(", ")}
    return Session(**{**fields, "participants": tuple(row.participants)})


# What `schemas.sessions.is_named` denies.
_UNNAMED = f"(session_key = '' OR starts_with(session_key, '{THREAD}'))"

# A session is closed when another of its key came after it, when a marker says so, or when it has been quiet
# for longer than the gap.
_CLOSE = text(f"""
    UPDATE conversation_sessions SET status = 'closed' WHERE id = ANY (ARRAY(
        SELECT s.id FROM conversation_sessions s
        WHERE s.chat_id = ANY(:chats) AND s.status = 'open' AND (
            s.ended_at < now() - CASE WHEN {_UNNAMED}
                THEN CAST(:gap AS interval) ELSE CAST(:ttl AS interval) END
            OR EXISTS (SELECT 1 FROM conversation_sessions later WHERE later.chat_id = s.chat_id
                AND later.session_key = s.session_key AND later.status <> 'merged'
                AND later.started_at > s.ended_at)
            OR (s.session_key <> '' AND EXISTS (SELECT 1 FROM session_closes c WHERE c.chat_id = s.chat_id
                AND c.session_key = s.session_key AND c.closed_at >= s.ended_at)))
        ORDER BY s.id FOR NO KEY UPDATE))
    RETURNING {COLUMNS}
""")


def close_ended(
    connection: Connection, chat_ids: Sequence[str], gap: timedelta, ttl: timedelta
) -> list[Session]:
    """Close the sessions of these chats that have come to their end; those that were closed now."""
    rows = connection.execute(_CLOSE, {"chats": list(chat_ids), "gap": gap, "ttl": ttl})
    return [as_session(row) for row in rows]


_IDLE_CHATS = text(f"""
    SELECT DISTINCT tenant_id, chat_id FROM (
        SELECT tenant_id, chat_id FROM conversation_sessions
        WHERE status = 'open' AND ended_at < now() - CASE WHEN {_UNNAMED}
            THEN CAST(:gap AS interval) ELSE CAST(:ttl AS interval) END
        ORDER BY ended_at LIMIT :limit) idle
""")


def idle_chats(connection: Connection, gap: timedelta, ttl: timedelta, limit: int) -> list[tuple[str, str]]:
    """`(tenant, chat)` whose open session has been quiet for longer than its gap (maintenance)."""
    rows = connection.execute(_IDLE_CHATS, {"gap": gap, "ttl": ttl, "limit": limit})
    return [(tenant, chat) for tenant, chat in rows]


_ADD_CLOSES = text("""
    INSERT INTO session_closes (tenant_id, chat_id, session_key, closed_at)
    VALUES (:tenant, :chat, :key, :at) ON CONFLICT DO NOTHING
""")


def add_closes(
    connection: Connection, tenant_id: str, chat_id: str, closes: Sequence[tuple[str, datetime]]
) -> None:
    """Keep the markers `(session key, sender time)` at which sessions were closed on request."""
    for session_key, at in sorted(set(closes)):
        connection.execute(_ADD_CLOSES, {"tenant": tenant_id, "chat": chat_id, "key": session_key, "at": at})


_KEYS = text("""
    SELECT DISTINCT session_key FROM messages WHERE chat_id = :chat ORDER BY session_key
""")


def keys(connection: Connection, chat_id: str) -> list[str]:
    """The session keys of a chat; the empty one is that of messages without."""
    rows = connection.execute(_KEYS, {"chat": chat_id})
    return [row[0] for row in rows]


_NEWLY_CUT = text(f"""
    WITH fresh AS (
        UPDATE session_closes SET seen = true WHERE chat_id = ANY(:chats) AND NOT seen
        RETURNING chat_id, session_key, closed_at
    )
    SELECT {COLUMNS} FROM conversation_sessions WHERE id = ANY (ARRAY(
        SELECT around.id FROM fresh CROSS JOIN LATERAL (
            SELECT s.id, s.ended_at FROM conversation_sessions s
            WHERE s.chat_id = fresh.chat_id AND s.session_key = fresh.session_key AND s.status <> 'merged'
                AND s.started_at <= fresh.closed_at
            ORDER BY s.started_at DESC LIMIT 1) around
        WHERE fresh.closed_at < around.ended_at))
    ORDER BY id FOR NO KEY UPDATE
""")


def newly_cut(connection: Connection, chat_ids: Sequence[str]) -> list[Session]:
    """The chats' sessions that markers not seen before lie in, locked; the markers count as seen from now."""
    rows = connection.execute(_NEWLY_CUT, {"chats": list(chat_ids)})
    return [as_session(row) for row in rows]


_CLOSES = text("""
    SELECT chat_id, session_key, closed_at
    FROM unnest(CAST(:chats AS text[]), CAST(:keys AS text[])) AS place (chat_id, session_key)
        JOIN session_closes USING (chat_id, session_key)
    ORDER BY closed_at
""")


def closes(
    connection: Connection, places: Collection[tuple[str, str]]
) -> dict[tuple[str, str], list[datetime]]:
    """By `(chat, session key)` the times at which sessions were closed on request, ascending."""
    found: dict[tuple[str, str], list[datetime]] = {place: [] for place in places}
    named = [place for place in places if place[1]]
    if named:
        rows = connection.execute(
            _CLOSES, {"chats": [chat for chat, _ in named], "keys": [key for _, key in named]}
        )
        for chat_id, session_key, at in rows:
            found[chat_id, session_key].append(at)
    return found


_FIND = text("""
    WITH RECURSIVE chain AS (
        SELECT id, merged_into FROM conversation_sessions WHERE id = :id
        UNION SELECT s.id, s.merged_into FROM conversation_sessions s JOIN chain ON s.id = chain.merged_into
    )
    SELECT s.* FROM conversation_sessions s JOIN chain USING (id) WHERE s.status <> 'merged'
""")


def find(connection: Connection, session_id: int) -> Row[Any] | None:
    """A session with its summary; a merged one leads to the one it went into."""
    return connection.execute(_FIND, {"id": session_id}).one_or_none()


_LISTING = text("""
    SELECT id, chat_id, session_key, started_at, ended_at, message_count, participants, status, topic_tags,
        summary_text, summary_model
    FROM conversation_sessions
    WHERE status <> 'merged' AND (CAST(:chat AS text) IS NULL OR chat_id = :chat)
        AND (CAST(:status AS text) IS NULL OR status = :status)
        AND (CAST(:after AS bigint) IS NULL OR (ended_at, id) < (
            SELECT last.ended_at, last.id FROM conversation_sessions last WHERE last.id = :after))
    ORDER BY ended_at DESC, id DESC LIMIT :limit
""")


def listing(
    connection: Connection,
    chat_id: str | None,
    *,
    limit: int,
    status: str | None = None,
    after: int | None = None,
) -> Sequence[Row[Any]]:
    """The newest sessions of one chat or of all, without merged ones; those that come after one in that order."""
    return connection.execute(
        _LISTING, {"chat": chat_id, "limit": limit, "status": status, "after": after}
    ).all()


NAMES_WITHIN = 1000
"""Newest messages of a chat in which the name of whoever asks is looked for: most have just said something there."""


_PEOPLE = text("""
    WITH circles AS (
        SELECT participants, min(started_at) AS began FROM conversation_sessions
        WHERE chat_id = :chat AND status <> 'merged' GROUP BY participants
    ), asker AS (
        SELECT coalesce((SELECT user_id FROM user_senders WHERE sender_id = :asker), :asker) AS person
        WHERE CAST(:asker AS text) IS NOT NULL
    ), ids AS (
        SELECT array_agg(id) AS ids FROM (
            SELECT CAST(:asker AS text) AS id UNION SELECT person FROM asker
            UNION SELECT s.sender_id FROM user_senders s JOIN asker ON s.user_id = asker.person) known
    )
    SELECT (SELECT array_agg(DISTINCT name) FROM circles, unnest(participants) AS name) AS names,
        (SELECT min(began) FROM circles) AS began,
        (SELECT coalesce((
            SELECT sender_name FROM (
                SELECT sender_id, sender_name, sent_at FROM messages
                WHERE chat_id = :chat ORDER BY sent_at DESC LIMIT :within) newest
            WHERE sender_id = ANY((SELECT ids FROM ids)::text[]) AND sender_name <> ''
            ORDER BY sent_at DESC LIMIT 1), asker.person) FROM asker) AS asker
""")


def people(
    connection: Connection, chat_id: str, asker: str | None = None
) -> tuple[list[str], datetime | None, str | None]:
    """The names of all who spoke in a chat, when it began, and what to call whoever asks, by any of their ids.

    That is the newest name that they have there, under whichever id; else the user whom the id is linked to; else
    the id.
    """
    row = connection.execute(_PEOPLE, {"chat": chat_id, "asker": asker or None, "within": NAMES_WITHIN}).one()
    return list(row.names or []), row.began, row.asker
