"""SQL of forgetting: what belongs to a user, a chat or a tenant, found and deleted."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, text

from pipeline.store import jobs
from pipeline.store.sessions import COLUMNS, as_session
from schemas.kinds import BACKFILL, EMBED, INGEST
from schemas.sessions import Session

# What was sent or came until then: a sender's clock may run ahead of ours.
_UNTIL = "least(sent_at, received_at) <= :until"

_CLOCK = text("SELECT clock_timestamp()")
_DROP_PENDING_OF_CHAT = text("DELETE FROM pending_changes WHERE chat_id = :chat AND received_at <= :until")
_DELETE_BACKFILLS = text("DELETE FROM backfills WHERE tenant_id = :tenant AND filter->>'chat_id' = :chat")


def clock(connection: Connection) -> datetime:
    """The database's clock now, also after a long wait for a lock."""
    now: datetime = connection.execute(_CLOCK).scalar_one()
    return now


_NAMES_OF = text("""
    SELECT DISTINCT sender_name FROM messages WHERE sender_id = ANY(:senders) AND sender_name <> ''
""")


def names_of(connection: Connection, senders: Sequence[str]) -> list[str]:
    """The names that a person went by."""
    return sorted(connection.scalars(_NAMES_OF, {"senders": list(senders)}))


def chats_of(connection: Connection, senders: Sequence[str] | None) -> list[str]:
    """The chats that a person spoke in, or all."""
    statement = (
        "SELECT chat_id FROM chats ORDER BY chat_id"
        if senders is None
        else "SELECT DISTINCT chat_id FROM messages WHERE sender_id = ANY(:senders) ORDER BY chat_id"
    )
    return list(connection.scalars(text(statement), {"senders": senders}))


def doomed(
    connection: Connection,
    chat_id: str,
    until: datetime,
    *,
    senders: Sequence[str] | None,
    external_id: str | None,
) -> Sequence[Row[Any]]:
    """A chat's messages that are to go, those of one session together: rows of `(id, chars)`."""
    which = {"external_id = :external": external_id, "sender_id = ANY(:senders)": senders}
    narrowed = " AND ".join(condition for condition, value in which.items() if value is not None)
    return connection.execute(
        text(f"""
            SELECT id, length(content) AS chars FROM messages
            WHERE chat_id = :chat AND {"true" if external_id else _UNTIL} AND {narrowed or "true"}
            ORDER BY session_key, sent_at, id
        """),
        {"chat": chat_id, "until": until, "senders": senders, "external": external_id},
    ).all()


_EXTERNAL_IDS = text("""
    SELECT external_id FROM messages WHERE id = ANY(:ids) AND (CAST(:after AS timestamptz) IS NULL
        OR sent_at > :after OR metadata ? 'original_sent_at')
""")


def external_ids(connection: Connection, ids: Sequence[int], after: datetime | None) -> list[str]:
    """The platform's ids of these messages; with `after` of those alone that said that they were sent later."""
    return list(connection.scalars(_EXTERNAL_IDS, {"ids": list(ids), "after": after}))


def drop_pending_of_chat(connection: Connection, chat_id: str, until: datetime) -> None:
    """Forget the edits that waited in a chat then."""
    connection.execute(_DROP_PENDING_OF_CHAT, {"chat": chat_id, "until": until})


# Sessions that these people took part in and whose messages are not all there.
_PRUNED = """
    status <> 'merged' AND participants && CAST(:names AS text[])
        AND message_count <> (SELECT count(*) FROM messages m
            WHERE m.chat_id = s.chat_id AND m.session_key = s.session_key
                AND m.sent_at BETWEEN s.started_at AND s.ended_at
                AND NOT EXISTS (SELECT 1 FROM arrivals a
                    WHERE a.tenant_id = m.tenant_id AND a.message_id = m.id))
"""


def chats_with_pruned_sessions(connection: Connection, names: Sequence[str]) -> list[str]:
    """The chats that have sessions with these people and without all their messages."""
    return list(
        connection.scalars(
            text(f"SELECT DISTINCT chat_id FROM conversation_sessions s WHERE {_PRUNED} ORDER BY chat_id"),
            {"names": list(names)},
        )
    )


_PRUNED_SESSIONS_WITH = text(f"""
    SELECT {COLUMNS} FROM conversation_sessions s WHERE chat_id = :chat AND {_PRUNED}
    ORDER BY id LIMIT :limit FOR NO KEY UPDATE
""")


def pruned_sessions_with(
    connection: Connection, chat_id: str, names: Sequence[str], limit: int
) -> list[Session]:
    """Sessions of a chat with these people and without all their messages, locked, at most so many."""
    rows = connection.execute(_PRUNED_SESSIONS_WITH, {"chat": chat_id, "names": list(names), "limit": limit})
    return [as_session(row) for row in rows]


_UNNAME_MERGED = text("""
    UPDATE conversation_sessions SET participants = '{}'
    WHERE status = 'merged' AND participants && CAST(:names AS text[])
""")


def unname_merged(connection: Connection, names: Sequence[str]) -> None:
    """Let pointers to joined sessions name none of these people."""
    connection.execute(_UNNAME_MERGED, {"names": list(names)})


# Which memories go with a subject; `IS NULL` of both is a tenant's.
_MEMORIES = """
    created_at <= :until AND (CAST(:senders AS text[]) IS NULL OR user_id = ANY(:senders))
        AND (CAST(:chat AS text) IS NULL OR learned_in = :chat)
"""

_DELETE_MEMORIES = text(f"""
    DELETE FROM memories WHERE id IN (SELECT id FROM memories WHERE {_MEMORIES} ORDER BY id LIMIT :limit)
    RETURNING id, scope, user_id, agent_id, content_hash
""")


def delete_memories(
    connection: Connection,
    tenant_id: str,
    until: datetime,
    *,
    senders: Sequence[str] | None,
    chat_id: str | None,
    limit: int,
) -> Sequence[Row[Any]]:
    """Delete a person's, a chat's or all memories with their vectors and work, at most so many.

    Rows of `(id, scope, user_id, agent_id, content_hash)`: what their tombstones are made of.
    """
    gone = connection.execute(
        _DELETE_MEMORIES, {"until": until, "senders": senders, "chat": chat_id, "limit": limit}
    ).all()
    jobs.drop(connection, tenant_id, [EMBED], [f"memory:{row.id}" for row in gone])
    return gone


_OLD_SESSIONS = text("""
    SELECT id FROM conversation_sessions WHERE chat_id = :chat AND ended_at <= :until
    ORDER BY id LIMIT :limit
""")


def old_sessions(connection: Connection, chat_id: str, until: datetime, limit: int) -> list[int]:
    """Sessions of a chat that ended by then, though their messages were pruned before."""
    return list(connection.scalars(_OLD_SESSIONS, {"chat": chat_id, "until": until, "limit": limit}))


_DELETE_CHAT = text("""
    DELETE FROM chats c WHERE chat_id = :chat AND NOT EXISTS (
        SELECT 1 FROM messages m WHERE m.tenant_id = c.tenant_id AND m.chat_id = c.chat_id)
""")


def delete_chat(connection: Connection, tenant_id: str, chat_id: str) -> int:
    """Delete a chat that has no message left, and what names it; 0 when somebody has gone on talking there."""
    gone = connection.execute(_DELETE_CHAT, {"chat": chat_id}).rowcount
    if gone:
        given = {"tenant": tenant_id, "chat": chat_id}
        connection.execute(_DELETE_BACKFILLS, given)
        jobs.drop(connection, tenant_id, [INGEST], [chat_id])
    return gone


def empty_tenant(connection: Connection, tenant_id: str, until: datetime) -> None:
    """Delete what is of the tenant and of none of its chats: settings, backfills, figures, work on what is gone."""
    given = {"tenant": tenant_id, "until": until}
    for statement in (
        "UPDATE tenants SET settings = '{}' WHERE tenant_id = :tenant",
        "DELETE FROM users WHERE tenant_id = :tenant AND created_at <= :until",
        "DELETE FROM backfills WHERE tenant_id = :tenant AND created_at <= :until",
        "DELETE FROM daily_counters WHERE tenant_id = :tenant",
    ):
        connection.execute(text(statement), given)
    jobs.drop_old(connection, tenant_id, BACKFILL, until)


_PLAN = text("""
    WITH gone AS (
        SELECT chat_id FROM messages WHERE (CAST(:chat AS text) IS NULL OR chat_id = :chat)
            AND (CAST(:senders AS text[]) IS NULL OR sender_id = ANY(:senders))
            AND (CAST(:external AS text) IS NULL OR external_id = :external)
    )
    SELECT count(*) AS messages, count(DISTINCT chat_id) AS chats,
        (SELECT count(*) FROM memories WHERE CAST(:external AS text) IS NULL
            AND (CAST(:senders AS text[]) IS NULL OR user_id = ANY(:senders))
            AND (CAST(:chat AS text) IS NULL OR learned_in = :chat)) AS memories,
        (SELECT count(*) FROM query_log WHERE CAST(:external AS text) IS NULL
            AND (CAST(:senders AS text[]) IS NULL OR user_id = ANY(:senders))
            AND (CAST(:chat AS text) IS NULL OR chat_id = :chat)) AS queries
    FROM gone
""")


def plan(
    connection: Connection, *, chat_id: str | None, senders: Sequence[str] | None, external_id: str | None
) -> Row[Any]:
    """How many messages, chats, memories and queries a forgetting would take: a row with these names."""
    return connection.execute(_PLAN, {"chat": chat_id, "senders": senders, "external": external_id}).one()
