"""SQL of tenants and chats."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, Row, text

from pipeline.store import tenants
from schemas.errors import NotFound
from schemas.messages import DEFAULT_LANGUAGE, ChatIn


@dataclass(frozen=True, kw_only=True)
class Chat:
    """A stored chat."""

    chat_id: str
    platform: str
    kind: str
    title: str
    time_zone: str
    language: str
    # placed messages, and their distinct lexemes added up
    message_count: int
    lexeme_count: int
    # off: messages are kept, and nothing is made of them
    memory: bool
    # the chat that has its messages now, and is meant where this one is named
    moved_to: str | None = None


_COLUMNS = (
    "chat_id, platform, kind, title, time_zone, language, message_count, lexeme_count, memory, moved_to"
)

_GET = text(f"SELECT {_COLUMNS} FROM chats WHERE chat_id = :chat")


def get(connection: Connection, chat_id: str) -> Chat | None:
    """The chat, or None when this tenant has none of that id."""
    row = connection.execute(_GET, {"chat": chat_id}).one_or_none()
    return Chat(**row._mapping) if row else None


def followed(connection: Connection, chat_id: str) -> Chat | None:
    """The chat, or the one that has its messages now; None when this tenant has none of that id."""
    chat = get(connection, chat_id)
    return chat if chat is None or chat.moved_to is None else get(connection, chat.moved_to)


def require_unmoved(chat: Chat | None) -> None:
    """Refuse what cannot be done under a chat's former id. Raises `NotFound` that says the new one."""
    if chat is not None and chat.moved_to is not None:
        raise NotFound(f"{chat.chat_id} is {chat.moved_to} now: use that id")


SAID = ("kind", "title", "time_zone", "language", "platform", "memory")
"""The columns of which something may be said."""


def said(chat: ChatIn) -> dict[str, Any]:
    """What is said of a chat, by column; what is not said is left out."""
    given = {
        "kind": chat.kind,
        "title": chat.title,
        "time_zone": chat.time_zone,
        "language": chat.language,
        "platform": chat.platform or None,
        "memory": chat.memory,
    }
    return {name: value for name, value in given.items() if value is not None}


def is_as_said(stored: Chat, chat: ChatIn) -> bool:
    """Whether what is said of a chat is stored already."""
    return all(getattr(stored, name) == value for name, value in said(chat).items())


_ENSURE = text("""
    INSERT INTO chats (tenant_id, chat_id, platform, kind, title, time_zone, language, memory)
    VALUES (:tenant, :chat, :platform, :kind, :title, :time_zone, :language, :memory)
    ON CONFLICT DO NOTHING
""")


def ensure(connection: Connection, tenant_id: str, chat: ChatIn) -> Chat:
    """The chat as stored, made or brought up to date by what is said of it now.

    Reads first: an upsert would lock the row and so wait for whoever places messages in this chat. Raises `NotFound`
    for a chat that has another id now.
    """
    given = said(chat)
    stored = get(connection, chat.chat_id)
    require_unmoved(stored)
    if stored is None:
        tenants.ensure(connection, tenant_id)
        connection.execute(
            _ENSURE,
            {
                "tenant": tenant_id,
                "chat": chat.chat_id,
                "platform": chat.chat_id.partition(":")[0] if ":" in chat.chat_id else "",
                "kind": "group",
                "title": "",
                "time_zone": "UTC",
                "language": DEFAULT_LANGUAGE,
                "memory": True,
                **given,
            },
        )
    elif not is_as_said(stored, chat):
        assignments = ", ".join(f"{name} = :{name}" for name in given)
        connection.execute(
            text(f"UPDATE chats SET {assignments} WHERE chat_id = :chat"), {"chat": chat.chat_id, **given}
        )
    else:
        return stored
    found = get(connection, chat.chat_id)
    if found is None:
        raise RuntimeError(f"chat {chat.chat_id} vanished while it was written")
    return found


_LOCK = text(f"SELECT {_COLUMNS} FROM chats WHERE chat_id = :chat FOR NO KEY UPDATE")
_LOCK_IF_FREE = text(f"{_LOCK.text} SKIP LOCKED")


def lock(connection: Connection, chat_id: str, *, wait: bool = True) -> Chat | None:
    """The chat, locked for whoever places its messages; accepting goes on meanwhile.

    Without `wait` None also when somebody else has it.
    """
    row = connection.execute(_LOCK if wait else _LOCK_IF_FREE, {"chat": chat_id}).one_or_none()
    return Chat(**row._mapping) if row else None


_LOCK_FREE = text(f"""
    SELECT {_COLUMNS} FROM chats WHERE chat_id = ANY(:chats) ORDER BY chat_id FOR NO KEY UPDATE SKIP LOCKED
""")


def lock_free(connection: Connection, chat_ids: Sequence[str]) -> dict[str, Chat]:
    """Those of these chats that nobody has locked, by id, locked as `lock` does; waits for nobody."""
    rows = connection.execute(_LOCK_FREE, {"chats": list(chat_ids)})
    return {row.chat_id: Chat(**row._mapping) for row in rows}


_EXISTING = text("SELECT chat_id FROM chats WHERE chat_id = ANY(:chats)")


def existing(connection: Connection, chat_ids: Sequence[str]) -> set[str]:
    """Those of these chats that there are."""
    rows = connection.execute(_EXISTING, {"chats": list(chat_ids)})
    return {row[0] for row in rows}


_LOCK_ALONE = text(f"SELECT {_COLUMNS} FROM chats WHERE chat_id = :chat FOR UPDATE")


def lock_alone(connection: Connection, chat_id: str) -> Chat | None:
    """The chat, locked against placing and accepting alike: whoever has it sees every message there is."""
    row = connection.execute(_LOCK_ALONE, {"chat": chat_id}).one_or_none()
    return Chat(**row._mapping) if row else None


def count_placed(connection: Connection, chat_id: str, messages: int, lexemes: int) -> None:
    """Add to the chat's counters that BM25 reads."""
    count_all_placed(connection, {chat_id: (messages, lexemes)})


_COUNT_ALL_PLACED = text("""
    UPDATE chats c SET message_count = c.message_count + placed.messages,
        lexeme_count = c.lexeme_count + placed.lexemes
    FROM unnest(CAST(:chats AS text[]), CAST(:messages AS bigint[]), CAST(:lexemes AS bigint[]))
        AS placed (chat_id, messages, lexemes)
    WHERE c.chat_id = placed.chat_id
""")


def count_all_placed(connection: Connection, placed: Mapping[str, tuple[int, int]]) -> None:
    """Add `(messages, lexemes)` to the counters that BM25 reads, by chat."""
    connection.execute(
        _COUNT_ALL_PLACED,
        {
            "chats": list(placed),
            "messages": [messages for messages, _ in placed.values()],
            "lexemes": [lexemes for _, lexemes in placed.values()],
        },
    )


_SETTLE = text("UPDATE chats SET settling_until = now() + :after WHERE chat_id = :chat")


def settle(connection: Connection, chat_id: str, after: timedelta) -> None:
    """A history is being imported: let summaries of this chat wait that long after its last message."""
    connection.execute(_SETTLE, {"chat": chat_id, "after": after})


_SETTLING_SECONDS = text("""
    SELECT chat_id, extract(epoch FROM settling_until - now()) FROM chats
    WHERE chat_id = ANY(:chats) AND settling_until > now()
""")


def settling_seconds(connection: Connection, chat_ids: Sequence[str]) -> dict[str, float]:
    """How long summaries of these chats must still wait, where a history is being imported."""
    rows = connection.execute(_SETTLING_SECONDS, {"chats": list(chat_ids)})
    return {chat_id: float(seconds) for chat_id, seconds in rows}


_OVERVIEW = text("""
    SELECT c.chat_id, c.platform, c.kind, c.title, c.time_zone, c.language, c.message_count,
        coalesce(s.sessions, 0) AS sessions, coalesce(s.summarized, 0) AS summarized,
        s.first_at, s.last_at
    FROM chats c LEFT JOIN (
        SELECT chat_id, count(*) AS sessions, count(*) FILTER (WHERE status = 'summarized') AS summarized,
            min(started_at) AS first_at, max(ended_at) AS last_at
        FROM conversation_sessions WHERE status <> 'merged' GROUP BY chat_id
    ) s USING (chat_id)
    WHERE c.moved_to IS NULL
    ORDER BY s.last_at DESC NULLS LAST, c.chat_id
""")


def overview(connection: Connection) -> Sequence[Row[Any]]:
    """Every chat of the tenant with its counts, the latest active first."""
    return connection.execute(_OVERVIEW).all()


_PAGE = text("""
    SELECT c.chat_id, c.platform, c.kind, c.title, c.time_zone, c.language, c.memory, c.message_count,
        s.sessions, s.summarized, s.first_at, s.last_at
    FROM (SELECT * FROM chats WHERE chat_id > :after AND moved_to IS NULL ORDER BY chat_id LIMIT :limit) c
    CROSS JOIN LATERAL (
        SELECT count(*) AS sessions, count(*) FILTER (WHERE status = 'summarized') AS summarized,
            min(started_at) AS first_at, max(ended_at) AS last_at
        FROM conversation_sessions WHERE chat_id = c.chat_id AND status <> 'merged') s
    ORDER BY c.chat_id
""")

_COUNT = text("SELECT count(*) FROM chats WHERE moved_to IS NULL")


def page(connection: Connection, after: str, limit: int) -> tuple[Sequence[Row[Any]], int]:
    """`(chats, total)`: those with ids after `after`, in their order, and how many there are in all."""
    rows = connection.execute(_PAGE, {"after": after, "limit": limit}).all()
    total = connection.scalar(_COUNT)
    return rows, int(total or 0)


_DATABASE_NOW = text("SELECT now()")


def database_now(connection: Connection) -> datetime:
    """The database's clock, the only one that leases, due times and closing go by."""
    now: datetime = connection.execute(_DATABASE_NOW).scalar_one()
    return now
