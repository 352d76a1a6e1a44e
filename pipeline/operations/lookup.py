"""Find things by id; where an id was never seen, suggest the nearest that exist."""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Row

from pipeline.people import suppression
from pipeline.store import chat_moves, chats, edits, identities, messages, sessions
from pipeline.store import suppression as stones
from pipeline.store.chats import Chat
from pipeline.store.database import Database
from schemas.base import did_you_mean
from schemas.errors import InvalidInput, NotFound
from schemas.listing import ChatSummary, SessionSpan

SUGGESTIONS = 3
COMPARED = 5_000
"""The latest messages of a chat, with whose ids a misspelt one is compared."""
NAMED = 5
"""Chats that are named where one of several must be chosen."""


def find_chat(connection: Connection, chat_id: str | None) -> Chat:
    """Return the chat of this id; without one, the only chat there is.

    Raises `NotFound` that names the chats that are alike, and `InvalidInput` when there are several to choose from.
    """
    found = chats.followed(connection, chat_id) if chat_id is not None else None
    if found is not None:
        return found
    known = {row.chat_id: row.title for row in chats.overview(connection)}
    if chat_id is not None and known:
        hint = did_you_mean(chat_id, known, titles=known, most=SUGGESTIONS) or "see `backscroll chats`"
        raise NotFound(f"there is no chat {chat_id}; {hint}")
    only = chats.get(connection, only_chat(list(known)[:NAMED], len(known)))
    if only is None:
        raise NotFound("the only chat was removed meanwhile")
    return only


def only_chat(latest: Sequence[str], total: int) -> str:
    """Return the id of the only chat there is; `latest` are some of all.

    Raises `NotFound` where there is none, and `InvalidInput` when there are several to choose from.
    """
    if not latest:
        raise NotFound("there is no chat yet: bring one in with `backscroll import`, or send messages")
    if total > 1:
        some = ", ".join(latest[:NAMED]) + (" …" if total > NAMED else "")
        raise InvalidInput(f"there are {total} chats, say which one: --chat ID ({some})", field="chat")
    return latest[0]


def find_session(connection: Connection, session_id: int) -> Row[Any]:
    """Return the session of this number, or the one that it was merged into. Raises `NotFound`."""
    found = sessions.find(connection, session_id) if abs(session_id) < 2**63 else None
    if found is None:
        latest = sessions.listing(connection, None, limit=1)
        hint = f"the latest is {latest[0].id}; " if latest else "there is none yet; "
        raise NotFound(f"there is no session {session_id}: {hint}see `backscroll sessions`")
    return found


def chat_summary(database: Database, tenant_id: str, chat_id: str) -> ChatSummary:
    """Return the chat of this id. Raises `NotFound` that suggests others, `DatabaseUnavailable`."""
    with database.tenant(tenant_id) as connection:
        return summary(find_chat(connection, chat_id))


def session_spans(database: Database, tenant_id: str, chat_id: str, limit: int) -> list[SessionSpan]:
    """Return when the latest sessions of a chat were. Raises `NotFound`, `DatabaseUnavailable`."""
    with database.tenant(tenant_id) as connection:
        find_chat(connection, chat_id)
        rows = sessions.listing(connection, chat_id, limit=limit)
    return [
        SessionSpan(
            id=row.id, started_at=row.started_at, ended_at=row.ended_at, message_count=row.message_count
        )
        for row in rows
    ]


def require_user(database: Database, tenant_id: str, any_id: str) -> None:
    """Raise `NotFound`, which suggests the nearest ids, for a sender or user who was never seen.

    Seen is who wrote, was named or linked, is remembered, was forgotten, or is not to be remembered.
    """
    if seen_users(database, tenant_id, any_id):
        return
    with database.tenant(tenant_id) as connection:
        # a bot, which is no member
        if identities.has_written(connection, any_id):
            return
        known = dict.fromkeys(identities.some_seen(connection), "")
    raise _never_seen(any_id, known)


def require_chat(database: Database, tenant_id: str, chat_id: str) -> None:
    """Raise `NotFound`, which suggests the nearest ids, for a chat that was neither seen nor forgotten."""
    if seen_chat(database, tenant_id, chat_id):
        return
    with database.tenant(tenant_id) as connection:
        known = {row.chat_id: row.title for row in chats.overview(connection)}
    raise _never_seen(chat_id, known)


def require_message(database: Database, tenant_id: str, chat_id: str, external_id: str) -> None:
    """Raise `NotFound`, which suggests the nearest ids, for a message or chat neither seen nor forgotten."""
    require_chat(database, tenant_id, chat_id)
    with database.tenant(tenant_id) as connection:
        address = chat_moves.address(connection, chat_id, external_id)
        if edits.find(connection, *address, locked=False) is not None:
            return
        # of a forgotten chat nobody knows what was said in it
        if _has_tombstone(connection, ("message", *address), ("chat", address[0])):
            return
        known = dict.fromkeys(messages.some_external_ids(connection, address[0], COMPARED), "")
    raise _never_seen(external_id, known, f"message {external_id} of {chat_id}")


def seen_users(database: Database, tenant_id: str, *ids: str) -> bool:
    """Tell whether each of these is known: has spoken, was named, linked, remembered, forgotten or switched off.

    A bot may speak of whom it has not sent yet: it is told, not refused. Raises `DatabaseUnavailable`.
    """
    with database.tenant(tenant_id) as connection:
        return all(
            identities.is_named(connection, each)
            or _has_tombstone(connection, ("user", each), ("unremembered", each))
            for each in ids
        )


def seen_chat(database: Database, tenant_id: str, chat_id: str) -> bool:
    """Tell whether there is or was this chat. Raises `DatabaseUnavailable`."""
    with database.tenant(tenant_id) as connection:
        return chats.get(connection, chat_id) is not None or _has_tombstone(connection, ("chat", chat_id))


def _never_seen(given: str, known: Mapping[str, str], called: str = "") -> NotFound:
    hint = did_you_mean(given, known, titles=known, most=SUGGESTIONS)
    return NotFound(f"{called or given} was never seen" + (f"; {hint}" if hint else ""))


def _has_tombstone(connection: Connection, *named: suppression.Named) -> bool:
    key = stones.key(connection)
    return key is not None and bool(
        stones.among(connection, [suppression.hash_of(key, *each) for each in named])
    )


def summary(chat: Chat) -> ChatSummary:
    """Describe a stored chat for listings."""
    return ChatSummary(
        chat_id=chat.chat_id,
        title=chat.title,
        kind=chat.kind,
        time_zone=chat.time_zone,
        language=chat.language,
        memory=chat.memory,
    )
