"""SQL of tenants and chats, and of what was talked about in them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, Row, text

from pipeline.store.chats import chat_languages
from pipeline.store.chats.chat_languages import DECLARED
from pipeline.store.connections.statements import arrays, column, number, run
from schemas.errors import NotFound
from schemas.languages import AUTO, DEFAULT_LANGUAGE
from schemas.messages import ChatIn

_ENSURE_TENANT = text("INSERT INTO tenants (tenant_id) VALUES (:tenant) ON CONFLICT DO NOTHING")
_SET_SETTING = text("UPDATE tenants SET settings = settings || :setting WHERE tenant_id = :tenant")
_ENSURE = text("""
    INSERT INTO chats (tenant_id, chat_id, platform, kind, title, time_zone, language, language_by, memory)
    VALUES (:tenant, :chat, :platform, :kind, :title, :time_zone, :language, :by, :memory)
    ON CONFLICT DO NOTHING
""")
_COUNT_ALL_PLACED = text("""
    UPDATE chats c SET message_count = c.message_count + placed.messages,
        lexeme_count = c.lexeme_count + placed.lexemes
    FROM unnest(CAST(:chats AS text[]), CAST(:messages AS bigint[]), CAST(:lexemes AS bigint[]))
        AS placed (chat_id, messages, lexemes)
    WHERE c.chat_id = placed.chat_id
""")
_SETTLE = text("UPDATE chats SET settling_until = now() + :after WHERE chat_id = :chat")
_SETTLING_SECONDS = text("""
    SELECT chat_id, extract(epoch FROM settling_until - now()) FROM chats
    WHERE chat_id = ANY(:chats) AND settling_until > now()
""")
_OVERVIEW = text("""
    SELECT c.chat_id, c.platform, c.kind, c.title, c.time_zone, c.language, c.language_by, c.memory, c.message_count,
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
_PAGE = """
    SELECT c.chat_id, c.platform, c.kind, c.title, c.time_zone, c.language, c.language_by, c.memory, c.message_count,
        s.sessions, s.summarized, s.first_at, s.last_at
    FROM (
        SELECT * FROM chats WHERE chat_id > :after AND moved_to IS NULL AND {named}
        ORDER BY chat_id LIMIT :limit) c
    CROSS JOIN LATERAL (
        SELECT count(*) AS sessions, count(*) FILTER (WHERE status = 'summarized') AS summarized,
            min(started_at) AS first_at, max(ended_at) AS last_at
        FROM conversation_sessions WHERE chat_id = c.chat_id AND status <> 'merged') s
    ORDER BY c.chat_id
"""
_WHOLE_PAGE = text(_PAGE.format(named="true"))
# reads the tenant's chats up to the last of the page: 0.1 s for 100,000
_NAMED_PAGE = text(
    _PAGE.format(named="(strpos(lower(title), lower(:name)) > 0 OR starts_with(chat_id, :name))")
)

_NAMES = text("""
    SELECT chat_id, title, time_zone FROM chats WHERE moved_to IS NULL
        AND (CAST(:chats AS text[]) IS NULL OR chat_id = ANY(:chats)) ORDER BY chat_id LIMIT :limit
""")


def ensure_tenant(connection: Connection, tenant_id: str) -> None:
    """Create the tenant if it is new."""
    run(connection, _ENSURE_TENANT, tenant=tenant_id)


def tenant_settings(connection: Connection) -> dict[str, Any]:
    """Return the tenant's settings."""
    return next(iter(column(connection, "SELECT settings FROM tenants")), None) or {}


def set_tenant_setting(connection: Connection, tenant_id: str, name: str, value: str) -> None:
    """Set one setting; create the tenant if it is new."""
    ensure_tenant(connection, tenant_id)
    run(connection, _SET_SETTING, tenant=tenant_id, setting={name: value})


MAX_ACCOUNTS = 100
"""Accounts of ours on a platform that are listed; more have direct chats of their own, too."""
_ADD_ACCOUNT = text(f"""
    UPDATE tenants SET settings = settings
        || jsonb_build_object(CAST(:name AS text),
            coalesce(settings->CAST(:name AS text), '[]') || to_jsonb(CAST(:account AS text)))
    WHERE tenant_id = :tenant AND NOT coalesce(settings->CAST(:name AS text), '[]') ? :account
        AND jsonb_array_length(coalesce(settings->CAST(:name AS text), '[]')) < {MAX_ACCOUNTS}
""")
ACCOUNTS = "accounts:"
"""Of a platform in the settings: those of ours that it has named, in the order of their coming."""


def accounts(connection: Connection, platform: str) -> list[str]:
    """Return the accounts of ours that a platform has named, in the order of their coming."""
    listed: list[str] = tenant_settings(connection).get(f"{ACCOUNTS}{platform}", [])
    return listed


def direct_with(connection: Connection, person: str) -> list[str]:
    """Return the ids that direct chats with a person may have, one for each account of ours but the first."""
    others = accounts(connection, person.partition(":")[0])[1:]
    return [person, *(f"{person}@{account}" for account in others)]


def add_account(connection: Connection, tenant_id: str, platform: str, account: str) -> None:
    """Note an account of ours on a platform; the tenant's first one is not named in ids."""
    ensure_tenant(connection, tenant_id)
    run(connection, _ADD_ACCOUNT, tenant=tenant_id, name=f"{ACCOUNTS}{platform}", account=account)


def tenant_ids(connection: Connection) -> list[str]:
    """Return the id of every tenant (maintenance)."""
    return column(connection, "SELECT tenant_id FROM tenants ORDER BY tenant_id")


@dataclass(frozen=True, kw_only=True)
class Chat:
    chat_id: str
    platform: str
    kind: str
    title: str
    time_zone: str
    language: str
    # placed messages, and the sum of their distinct lexemes
    message_count: int
    lexeme_count: int
    # off: messages are kept, but not processed
    memory: bool
    # the chat that its messages were moved to, which this id now refers to
    moved_to: str | None = None
    # `declared` or `detected`; None: unknown, the default language
    language_by: str | None = None
    # its number of messages when its language was last detected
    language_at: int = 0
    # its number moved on, and the former owner's messages are not out yet: nothing of it is shown
    emptying: bool = False

    @property
    def mean_length(self) -> float:
        """The mean number of distinct lexemes of its messages."""
        return self.lexeme_count / max(1, self.message_count)


CHAT_COLUMNS = (
    "chat_id, platform, kind, title, time_zone, language, message_count, lexeme_count, memory, moved_to, "
    "language_by, language_at, emptying"
)

_GET = text(f"SELECT {CHAT_COLUMNS} FROM chats WHERE chat_id = :chat")


def _one(rows: Iterable[Row[Any]]) -> Chat | None:
    return next((Chat(**row._mapping) for row in rows), None)


def get(connection: Connection, chat_id: str) -> Chat | None:
    """Return a chat, or None if the tenant has none of that id."""
    return _one(run(connection, _GET, chat=chat_id))


def names(connection: Connection, limit: int, chat_ids: Sequence[str] | None = None) -> list[Row[Any]]:
    """Return `(chat_id, title, time_zone)` of the first chats by id, or of these."""
    return list(run(connection, _NAMES, chats=chat_ids, limit=limit))


def get_current(connection: Connection, chat_id: str) -> Chat | None:
    """Return a chat, or the one it was moved to; None if the tenant has no chat of that id, or it is being emptied."""
    chat = get(connection, chat_id)
    if chat is not None and chat.moved_to is not None:
        chat = get(connection, chat.moved_to)
    return None if chat is None or chat.emptying else chat


def require_current(connection: Connection, chat_id: str) -> Chat:
    """Return a chat as `get_current` does. Raises `NotFound`."""
    chat = get_current(connection, chat_id)
    if chat is None:
        raise unknown(chat_id)
    return chat


def unknown(chat_id: str) -> NotFound:
    """Return the error for a chat that the tenant does not have."""
    return NotFound(f"there is no chat {chat_id}: a chat begins with its first message")


def require_unmoved(chat: Chat | None) -> None:
    """Refuse a chat's former id. Raises `NotFound`, which names the new one."""
    if chat is not None and chat.moved_to is not None:
        raise NotFound(f"{chat.chat_id} is {chat.moved_to} now: use that id")


DESCRIBED = ("kind", "title", "time_zone", "language", "platform", "memory")
"""The columns that a description may set."""


_DEFAULTS = {
    "kind": "group",
    "title": "",
    "time_zone": "UTC",
    "language": DEFAULT_LANGUAGE,
    "by": None,
    "memory": True,
}


def described(chat: ChatIn) -> dict[str, Any]:
    """Return the values that a chat's description sets, by column."""
    values = {name: getattr(chat, name) for name in DESCRIBED} | {"platform": chat.platform or None}
    return {name: value for name, value in values.items() if value is not None}


def is_as_described(stored: Chat, chat: ChatIn) -> bool:
    """Tell whether a chat is stored as described."""
    values = described(chat)
    language = values.pop("language", None)
    declared = stored.language_by == DECLARED
    return all(getattr(stored, name) == value for name, value in values.items()) and (
        language is None or (not declared if language == AUTO else declared and stored.language == language)
    )


def ensure(connection: Connection, tenant_id: str, chat: ChatIn) -> Chat:
    """Create a chat or update it to its description; return it as stored. Raises `NotFound` for a former id."""
    values = described(chat)
    # an upsert would lock the row, and so wait while messages of this chat are placed
    stored = get(connection, chat.chat_id)
    require_unmoved(stored)
    if stored is None:
        ensure_tenant(connection, tenant_id)
        platform = chat.chat_id.partition(":")[0] if ":" in chat.chat_id else ""
        language = values.pop("language", AUTO)
        by = {} if language == AUTO else {"language": language, "by": DECLARED}
        named = {"tenant": tenant_id, "chat": chat.chat_id, "platform": platform}
        run(connection, _ENSURE, **(named | _DEFAULTS | values | by))
    elif not is_as_described(stored, chat):
        language = values.pop("language", None)
        if values:
            assignments = ", ".join(f"{name} = :{name}" for name in values)
            run(
                connection,
                text(f"UPDATE chats SET {assignments} WHERE chat_id = :chat"),
                chat=chat.chat_id,
                **values,
            )
        if language is not None:
            chat_languages.declare(
                connection, tenant_id, chat.chat_id, language, differs=language != stored.language
            )
    else:
        return stored
    written = get(connection, chat.chat_id)
    if written is None:
        raise RuntimeError(f"chat {chat.chat_id} vanished while it was written")
    return written


_LOCK = text(f"SELECT {CHAT_COLUMNS} FROM chats WHERE chat_id = :chat FOR NO KEY UPDATE")


def lock(connection: Connection, chat_id: str) -> Chat | None:
    """Lock a chat for placing its messages, while accepting goes on."""
    return _one(run(connection, _LOCK, chat=chat_id))


_LOCK_FREE = text(f"""
    SELECT {CHAT_COLUMNS} FROM chats WHERE chat_id = ANY(:chats) ORDER BY chat_id FOR NO KEY UPDATE SKIP LOCKED
""")


def lock_free(connection: Connection, chat_ids: Sequence[str]) -> dict[str, Chat]:
    """Lock the chats that nobody else has locked, as `lock` does; return them by id."""
    return {row.chat_id: Chat(**row._mapping) for row in run(connection, _LOCK_FREE, chats=chat_ids)}


def existing(connection: Connection, chat_ids: Sequence[str]) -> set[str]:
    """Return those of these chats that exist."""
    return set(column(connection, "SELECT chat_id FROM chats WHERE chat_id = ANY(:chats)", chats=chat_ids))


_LOCK_ALONE = text(f"SELECT {CHAT_COLUMNS} FROM chats WHERE chat_id = :chat FOR UPDATE")


def lock_exclusively(connection: Connection, chat_id: str) -> Chat | None:
    """Lock a chat against both placing and accepting, so that the holder sees all its messages."""
    return _one(run(connection, _LOCK_ALONE, chat=chat_id))


def count_placed(connection: Connection, chat_id: str, messages: int, lexemes: int) -> None:
    """Add to one chat's counters for BM25."""
    count_all_placed(connection, {chat_id: (messages, lexemes)})


def count_all_placed(connection: Connection, placed: Mapping[str, tuple[int, int]]) -> None:
    """Add `(messages, lexemes)` to the counters for BM25, by chat."""
    rows = ((chat_id, *counts) for chat_id, counts in placed.items())
    run(connection, _COUNT_ALL_PLACED, **arrays("chats messages lexemes", rows))


def settle(connection: Connection, chat_id: str, after: timedelta) -> None:
    """Delay summaries of a chat until that long after its last message, during an import."""
    run(connection, _SETTLE, chat=chat_id, after=after)


def settling_seconds(connection: Connection, chat_ids: Sequence[str]) -> dict[str, float]:
    """Return how long summaries of chats with a running import must still wait, by chat."""
    rows = run(connection, _SETTLING_SECONDS, chats=chat_ids)
    return {chat_id: float(seconds) for chat_id, seconds in rows}


def overview(connection: Connection) -> Sequence[Row[Any]]:
    """Return every chat of the tenant with its counts, the latest active first."""
    return run(connection, _OVERVIEW).all()


def latest_page(connection: Connection, after: str | None, limit: int) -> tuple[Sequence[Row[Any]], int]:
    """Return `(chats, total)`: those after the chat `after` in the order of `overview`; none if it is unknown."""
    rows = overview(connection)
    start = (
        0 if after is None else next((n for n, row in enumerate(rows, 1) if row.chat_id == after), len(rows))
    )
    return rows[start : start + limit], len(rows)


def page(connection: Connection, after: str, limit: int, name: str = "") -> tuple[Sequence[Row[Any]], int]:
    """Return `(chats, total)`: those with ids after `after`, in order, and how many there are in all.

    With `name` only chats whose title holds it, or whose id begins with it.
    """
    values = {"after": after, "limit": limit} | ({"name": name} if name else {})
    rows = run(connection, _NAMED_PAGE if name else _WHOLE_PAGE, **values).all()
    return rows, number(connection, "SELECT count(*) FROM chats WHERE moved_to IS NULL")


def database_now(connection: Connection) -> datetime:
    """Return the transaction's time in the database, which decides on leases, due times and closing."""
    now: datetime = run(connection, "SELECT now()").scalar_one()
    return now


def clock(connection: Connection) -> datetime:
    """Return the database's current time, correct even after a long wait for a lock."""
    at: datetime = run(connection, "SELECT clock_timestamp()").scalar_one()
    return at


_BY_PERIOD = text("""
    WITH named AS (
        SELECT date_trunc(:by, s.started_at AT TIME ZONE :zone)::date AS begins, s.id, s.started_at, s.ended_at, topic
        FROM conversation_sessions s CROSS JOIN LATERAL jsonb_array_elements_text(s.topic_tags) AS topic
        WHERE s.chat_id = :chat AND s.status <> 'merged'
    ), counted AS (
        SELECT begins, (array_agg(topic ORDER BY started_at DESC))[1] AS topic, count(DISTINCT id) AS sessions,
            min(started_at) AS first_at, max(ended_at) AS last_at
        FROM named GROUP BY begins, lower(topic)
    ), ranked AS (
        SELECT *, row_number() OVER (PARTITION BY begins ORDER BY sessions DESC, last_at DESC, topic) AS place,
            dense_rank() OVER (ORDER BY begins DESC) AS period
        FROM counted
    )
    SELECT begins, topic, sessions, first_at, last_at FROM ranked
    WHERE place <= :limit AND period <= :periods ORDER BY begins DESC, place
""")


def topics_by_period(
    connection: Connection, chat_id: str, *, by: str, zone: str, periods: int, limit: int
) -> Sequence[Row[Any]]:
    """Return a chat's topics by period, the latest first, the most frequent first in each."""
    values = {"by": by, "zone": zone, "periods": periods, "limit": limit}
    return run(connection, _BY_PERIOD, chat=chat_id, **values).all()
