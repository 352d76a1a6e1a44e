"""SQL of sessions: ranges of messages, and the markers that close them."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, Row

from pipeline.store.sql import text
from schemas.sessions import Session

COLUMNS = "id, chat_id, session_key, started_at, ended_at, message_count, participants, status, revision"


def as_session(row: Row[Any]) -> Session:
    """A row that has at least `COLUMNS`, as a value."""
    fields = {name: row._mapping[name] for name in COLUMNS.split(", ")}
    return Session(**{**fields, "participants": tuple(row.participants)})


def near(
    connection: Connection, chat_id: str, session_key: str, start: datetime, end: datetime, gap: timedelta
) -> list[Session]:
    """The sessions of a chat and key that lie within `gap` of the time from `start` to `end`, locked."""
    rows = connection.execute(
        text(f"""
            SELECT {COLUMNS} FROM conversation_sessions
            WHERE chat_id = :chat AND session_key = :key AND status <> 'merged'
                AND ended_at >= :start AND started_at <= :end
            ORDER BY id FOR NO KEY UPDATE
        """),
        {"chat": chat_id, "key": session_key, "start": start - gap, "end": end + gap},
    )
    return sorted((as_session(row) for row in rows), key=lambda s: s.started_at)


@dataclass(frozen=True, kw_only=True)
class Shape:
    """What a session's messages make of it."""

    started_at: datetime
    ended_at: datetime
    message_count: int
    token_count: int
    # names, sorted
    participants: Sequence[str]


def insert(
    connection: Connection, tenant_id: str, chat_id: str, session_key: str, language: str, shape: Shape
) -> int:
    """Begin a session; its id."""
    found = connection.execute(
        text("""
            INSERT INTO conversation_sessions (tenant_id, chat_id, session_key, language, started_at, ended_at,
                message_count, token_count, participants)
            VALUES (:tenant, :chat, :key, :language, :started_at, :ended_at, :message_count, :token_count,
                :participants)
            RETURNING id
        """),
        {"tenant": tenant_id, "chat": chat_id, "key": session_key, "language": language, **asdict(shape)},
    ).scalar_one()
    return int(found)


def grow(connection: Connection, session_id: int, shape: Shape) -> None:
    """Let a session reach over this range, holding so many messages and tokens more.

    It is open again until it is closed, and a revision later.
    """
    connection.execute(
        text("""
            UPDATE conversation_sessions SET started_at = :started_at, ended_at = :ended_at,
                message_count = message_count + :message_count, token_count = token_count + :token_count,
                participants = :participants, status = 'open', failure_reason = NULL, revision = revision + 1
            WHERE id = :id
        """),
        {"id": session_id, **asdict(shape)},
    )


def reshape(connection: Connection, session_id: int, shape: Shape) -> None:
    """Set a session's range and counts anew; what it was about is owed again."""
    connection.execute(
        text("""
            UPDATE conversation_sessions SET started_at = :started_at, ended_at = :ended_at,
                message_count = :message_count, token_count = :token_count, participants = :participants,
                status = 'open', failure_reason = NULL, revision = revision + 1, summary_ended_at = NULL
            WHERE id = :id
        """),
        {"id": session_id, **asdict(shape)},
    )


def merge(connection: Connection, into: int, losers: Sequence[int]) -> tuple[int, int]:
    """Join sessions into one: `(messages, tokens)` of the others, which stay as pointers to it.

    Their memories move, their vectors go.
    """
    given = {"into": into, "losers": list(losers)}
    counted = connection.execute(
        text("""
            SELECT coalesce(sum(message_count), 0), coalesce(sum(token_count), 0)
            FROM conversation_sessions WHERE id = ANY(:losers)
        """),
        given,
    ).one()
    connection.execute(
        text("""
            UPDATE conversation_sessions SET status = 'merged', merged_into = :into, merged_at = now(),
                revision = revision + 1, message_count = 0, token_count = 0, participants = '{}',
                search_text = '', summary_text = NULL,
                topic_tags = '[]', decisions = '[]', open_questions = '[]', action_items = '[]', entities = '[]'
            WHERE id = ANY(:losers)
        """),
        given,
    )
    connection.execute(
        text("UPDATE conversation_sessions SET merged_into = :into WHERE merged_into = ANY(:losers)"), given
    )
    connection.execute(text("UPDATE memories SET session_id = :into WHERE session_id = ANY(:losers)"), given)
    return int(counted[0]), int(counted[1])


# A session is closed when another of its key came after it, when a marker says so, or when it has been quiet
# for longer than the gap.
_CLOSE = text(f"""
    UPDATE conversation_sessions s SET status = 'closed'
    WHERE s.chat_id = :chat AND s.status = 'open' AND (
        s.ended_at < now() - CASE WHEN s.session_key = '' THEN CAST(:gap AS interval) ELSE CAST(:ttl AS interval) END
        OR EXISTS (SELECT 1 FROM conversation_sessions later WHERE later.chat_id = s.chat_id
            AND later.session_key = s.session_key AND later.status <> 'merged' AND later.started_at > s.ended_at)
        OR (s.session_key <> '' AND EXISTS (SELECT 1 FROM session_closes c WHERE c.chat_id = s.chat_id
            AND c.session_key = s.session_key AND c.closed_at >= s.ended_at)))
    RETURNING {COLUMNS}
""")


def close_ended(connection: Connection, chat_id: str, gap: timedelta, ttl: timedelta) -> list[Session]:
    """Close the chat's sessions that have come to their end; those that were closed now."""
    rows = connection.execute(_CLOSE, {"chat": chat_id, "gap": gap, "ttl": ttl})
    return [as_session(row) for row in rows]


def idle_chats(connection: Connection, gap: timedelta, ttl: timedelta, limit: int) -> list[tuple[str, str]]:
    """`(tenant, chat)` whose open session has been quiet for longer than its gap (maintenance)."""
    rows = connection.execute(
        text("""
            SELECT DISTINCT tenant_id, chat_id FROM (
                SELECT tenant_id, chat_id FROM conversation_sessions
                WHERE status = 'open' AND ended_at < now() - CASE WHEN session_key = ''
                    THEN CAST(:gap AS interval) ELSE CAST(:ttl AS interval) END
                ORDER BY ended_at LIMIT :limit) idle
        """),
        {"gap": gap, "ttl": ttl, "limit": limit},
    )
    return [(tenant, chat) for tenant, chat in rows]


def add_closes(
    connection: Connection, tenant_id: str, chat_id: str, closes: Sequence[tuple[str, datetime]]
) -> None:
    """Keep the markers `(session key, sender time)` at which sessions were closed on request."""
    for session_key, at in sorted(set(closes)):
        connection.execute(
            text("""
                INSERT INTO session_closes (tenant_id, chat_id, session_key, closed_at)
                VALUES (:tenant, :chat, :key, :at) ON CONFLICT DO NOTHING
            """),
            {"tenant": tenant_id, "chat": chat_id, "key": session_key, "at": at},
        )


def keys(connection: Connection, chat_id: str) -> list[str]:
    """The session keys of a chat; the empty one is that of messages without."""
    rows = connection.execute(
        text("""
            SELECT DISTINCT session_key FROM messages WHERE chat_id = :chat ORDER BY session_key
        """),
        {"chat": chat_id},
    )
    return [row[0] for row in rows]


def newly_cut(connection: Connection, chat_id: str) -> list[Session]:
    """The sessions that markers not seen before lie in, locked; the markers count as seen from now."""
    rows = connection.execute(
        text(f"""
            WITH fresh AS (
                UPDATE session_closes SET seen = true WHERE chat_id = :chat AND NOT seen
                RETURNING session_key, closed_at
            )
            SELECT {COLUMNS} FROM conversation_sessions s
            WHERE chat_id = :chat AND status <> 'merged' AND EXISTS (
                SELECT 1 FROM fresh WHERE fresh.session_key = s.session_key
                    AND fresh.closed_at >= s.started_at AND fresh.closed_at < s.ended_at)
            ORDER BY id FOR NO KEY UPDATE
        """),
        {"chat": chat_id},
    )
    return [as_session(row) for row in rows]


def closes(connection: Connection, chat_id: str, session_key: str) -> list[datetime]:
    """The times at which sessions of this key were closed on request, ascending."""
    rows = connection.execute(
        text("""
            SELECT closed_at FROM session_closes WHERE chat_id = :chat AND session_key = :key ORDER BY closed_at
        """),
        {"chat": chat_id, "key": session_key},
    )
    return [row[0] for row in rows]


def find(connection: Connection, session_id: int) -> Row[Any] | None:
    """A session with its summary; a merged one leads to the one it went into."""
    return connection.execute(
        text("""
            WITH RECURSIVE chain AS (
                SELECT id, merged_into FROM conversation_sessions WHERE id = :id
                UNION SELECT s.id, s.merged_into FROM conversation_sessions s JOIN chain ON s.id = chain.merged_into
            )
            SELECT s.* FROM conversation_sessions s JOIN chain USING (id) WHERE s.status <> 'merged'
        """),
        {"id": session_id},
    ).one_or_none()


def listing(
    connection: Connection, chat_id: str | None, *, limit: int, status: str | None = None
) -> Sequence[Row[Any]]:
    """The newest sessions of one chat or of all, without merged ones."""
    return connection.execute(
        text("""
            SELECT id, chat_id, session_key, started_at, ended_at, message_count, participants, status, topic_tags,
                summary_text, summary_model
            FROM conversation_sessions
            WHERE status <> 'merged' AND (CAST(:chat AS text) IS NULL OR chat_id = :chat)
                AND (CAST(:status AS text) IS NULL OR status = :status)
            ORDER BY ended_at DESC, id DESC LIMIT :limit
        """),
        {"chat": chat_id, "limit": limit, "status": status},
    ).all()


def people(connection: Connection, chat_id: str) -> tuple[list[str], datetime | None]:
    """The names of all who spoke in a chat, and when it began."""
    row = connection.execute(
        text("""
            WITH circles AS (
                SELECT participants, min(started_at) AS began FROM conversation_sessions
                WHERE chat_id = :chat AND status <> 'merged' GROUP BY participants)
            SELECT (SELECT array_agg(DISTINCT name) FROM circles, unnest(participants) AS name),
                (SELECT min(began) FROM circles)
        """),
        {"chat": chat_id},
    ).one()
    return list(row[0] or []), row[1]
