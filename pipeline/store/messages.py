"""SQL of messages and arrivals."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import Connection, Row

from pipeline.store.sql import text
from schemas.sessions import Message, Stamp

COLUMNS = (
    "id, chat_id, external_id, sender_id, sender_name, role, content, sent_at, position, session_key, "
    "agent_id, metadata"
)
ORDER = 'sent_at, position, external_id COLLATE "C"'


class Arrival(NamedTuple):
    """What placing needs to know of a message."""

    message_id: int
    session_key: str
    sent_at: datetime
    speaker: str
    token_count: int
    lexeme_count: int
    # whether there is anything to embed
    has_text: bool


def arrivals(connection: Connection, chat_id: str, limit: int, only: int | None = None) -> list[Arrival]:
    """The chat's messages that wait for their place, earliest first; or `only` this one, if it does."""
    rows = connection.execute(
        text("""
            SELECT m.id, m.session_key, m.sent_at, coalesce(nullif(m.sender_name, ''), m.sender_id),
                m.token_count, length(m.tsv), m.content <> ''
            FROM arrivals a JOIN messages m ON m.tenant_id = a.tenant_id AND m.id = a.message_id
            WHERE a.chat_id = :chat AND a.quarantined_at IS NULL
                AND (CAST(:only AS bigint) IS NULL OR a.message_id = :only)
            ORDER BY m.sent_at LIMIT :limit
        """),
        {"chat": chat_id, "limit": limit, "only": only},
    )
    return [Arrival(*row) for row in rows]


def forget_arrivals(connection: Connection, chat_id: str, message_ids: Sequence[int]) -> None:
    """Delete exactly these arrivals: they are placed."""
    connection.execute(
        text("DELETE FROM arrivals WHERE chat_id = :chat AND message_id = ANY(:ids)"),
        {"chat": chat_id, "ids": list(message_ids)},
    )


def quarantine(
    connection: Connection, chat_id: str, message_id: int, error: str, trace_id: str | None
) -> None:
    """Let an arrival stand aside: nothing places it until it is released."""
    connection.execute(
        text("""
            UPDATE arrivals SET quarantined_at = now(), error = :error, trace_id = :trace
            WHERE chat_id = :chat AND message_id = :id
        """),
        {"chat": chat_id, "id": message_id, "error": error, "trace": trace_id},
    )


_WAITING = text("""
    SELECT count(*) FROM (
        SELECT 1 FROM arrivals
        WHERE quarantined_at IS NULL AND chat_id <> ALL(ARRAY(
            SELECT key FROM work WHERE tenant_id = :tenant AND kind = 'ingest' AND dead_at IS NOT NULL))
        LIMIT :limit
    ) w
""")


def waiting(connection: Connection, tenant_id: str, limit: int) -> int:
    """How many accepted messages wait for their place, counted up to `limit`.

    Not those in quarantine, nor those of chats that have been given up: they wait for an operator, and what the
    workers can place goes on.
    """
    return int(connection.execute(_WAITING, {"tenant": tenant_id, "limit": limit}).scalar_one())


def stamps(
    connection: Connection, chat_id: str, session_key: str, start: datetime, end: datetime
) -> list[tuple[Stamp, str, int]]:
    """`(stamp, speaker, tokens)` of every placed message in a range, in order."""
    rows = connection.execute(
        text(f"""
            SELECT sent_at, position, external_id, coalesce(nullif(sender_name, ''), sender_id), token_count
            FROM messages m
            WHERE chat_id = :chat AND session_key = :key AND sent_at BETWEEN :start AND :end
                AND NOT EXISTS (SELECT 1 FROM arrivals a WHERE a.tenant_id = m.tenant_id AND a.message_id = m.id)
            ORDER BY {ORDER}
        """),
        {"chat": chat_id, "key": session_key, "start": start, "end": end},
    )
    return [
        (Stamp(at, position, external), speaker, tokens) for at, position, external, speaker, tokens in rows
    ]


def in_range(
    connection: Connection,
    chat_id: str,
    session_key: str,
    start: datetime,
    end: datetime,
    *,
    limit: int,
    after: bool = False,
) -> list[Message]:
    """A session's messages in order, at most `limit`; with `after`, those later than `start` alone."""
    rows = connection.execute(
        text(f"""
            SELECT {COLUMNS} FROM messages
            WHERE chat_id = :chat AND session_key = :key AND sent_at {">" if after else ">="} :start
                AND sent_at <= :end
            ORDER BY {ORDER} LIMIT :limit
        """),
        {"chat": chat_id, "key": session_key, "start": start, "end": end, "limit": limit},
    )
    return [as_message(row) for row in rows]


def by_id(connection: Connection, ids: Iterable[int]) -> list[Message]:
    """These messages, in no order; ids that are not there are left out."""
    rows = connection.execute(
        text(f"SELECT {COLUMNS} FROM messages WHERE id = ANY(:ids)"),
        {"ids": list(ids)},
    )
    return [as_message(row) for row in rows]


def recent(connection: Connection, chat_id: str, limit: int, session_key: str | None = None) -> list[Message]:
    """The chat's newest messages, newest first; of one session key when given."""
    rows = connection.execute(
        text(f"""
            SELECT {COLUMNS} FROM messages
            WHERE chat_id = :chat AND (CAST(:key AS text) IS NULL OR session_key = :key)
            ORDER BY sent_at DESC, position DESC, external_id COLLATE "C" DESC LIMIT :limit
        """),
        {"chat": chat_id, "key": session_key, "limit": limit},
    )
    return [as_message(row) for row in rows]


def as_message(row: Row[Any]) -> Message:
    """A row of `COLUMNS` as a value."""
    return Message(**row._mapping)
