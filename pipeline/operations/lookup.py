"""Find chats, sessions, users, messages and topics by id, and suggest similar ids for unknown ones."""

from collections.abc import Mapping
from itertools import groupby
from typing import Any

from sqlalchemy import Connection, Row

from pipeline.people import suppression
from pipeline.store import identities
from pipeline.store.chats import chat_moves, chats
from pipeline.store.chats.chats import Chat
from pipeline.store.connections.database import Database
from pipeline.store.messages import edits, message_rows
from pipeline.store.sessions import session_rows
from schemas.base import did_you_mean
from schemas.errors import InvalidInput, NotFound
from schemas.listing import ChatSummary, ChatTopics, CountedTopic, SessionSpan, TopicFilter, TopicPeriod

SUGGESTIONS = 3
COMPARED_MESSAGES = 5_000
"""Latest messages of a chat whose ids are compared with a misspelt one."""


def find_chat(connection: Connection, chat_id: str | None) -> Chat:
    """Return the chat of this id, or without an id the only chat.

    Raises `NotFound`, which suggests similar ids, and `InvalidInput` with several to choose from.
    """
    chat = chats.get_current(connection, chat_id) if chat_id is not None else None
    if chat is not None:
        return chat
    known = {row.chat_id: row.title for row in chats.overview(connection)}
    if chat_id is not None:
        hint = (
            did_you_mean(chat_id, known, titles=known, most=SUGGESTIONS)
            or "a chat begins with its first message"
        )
        raise NotFound(f"there is no chat {chat_id}; {hint}")
    if not known:
        raise NotFound("there is no chat yet: bring one in with `backscroll import`, or send messages")
    if len(known) > 1:
        raise InvalidInput(f"there are {len(known)} chats, say which one", field="chat")
    return find_chat(connection, next(iter(known)))


def find_session(connection: Connection, session_id: int) -> Row[Any]:
    """Return the session of this number, or the one that it was merged into. Raises `NotFound`."""
    session = session_rows.find(connection, session_id) if abs(session_id) < 2**63 else None
    if session is None:
        latest = session_rows.listing(connection, None, limit=1)
        hint = f"the latest is {latest[0].id}; " if latest else "there is none yet; "
        raise NotFound(f"there is no session {session_id}: {hint}see `backscroll sessions`")
    return session


def chat_summary(database: Database, tenant_id: str, chat_id: str) -> ChatSummary:
    """Return the chat of this id. Raises `NotFound` that suggests others, `DatabaseUnavailable`."""
    with database.tenant(tenant_id) as connection:
        return summary(find_chat(connection, chat_id))


def session_spans(database: Database, tenant_id: str, chat_id: str, limit: int) -> list[SessionSpan]:
    """Return when the latest sessions of a chat were. Raises `NotFound`, `DatabaseUnavailable`."""
    with database.tenant(tenant_id) as connection:
        find_chat(connection, chat_id)
        rows = session_rows.listing(connection, chat_id, limit=limit)
    return [SessionSpan.model_validate(row, from_attributes=True) for row in rows]


def require_user(database: Database, tenant_id: str, any_id: str) -> None:
    """Raise `NotFound`, which suggests similar ids, for a sender or user who was never seen.

    Seen are those who wrote, were named or linked, have memories, were forgotten, or have memory off.
    """
    if seen_users(database, tenant_id, any_id):
        return
    with database.tenant(tenant_id) as connection:
        # a bot is no member
        if identities.has_written(connection, any_id):
            return
        known = dict.fromkeys(identities.some_seen(connection), "")
    raise _never_seen(any_id, known)


def require_chat(database: Database, tenant_id: str, chat_id: str) -> None:
    """Raise `NotFound`, which suggests similar ids, for a chat neither seen nor forgotten."""
    if seen_chat(database, tenant_id, chat_id):
        return
    with database.tenant(tenant_id) as connection:
        known = {row.chat_id: row.title for row in chats.overview(connection)}
    raise _never_seen(chat_id, known)


def require_message(database: Database, tenant_id: str, chat_id: str, external_id: str) -> None:
    """Raise `NotFound`, which suggests similar ids, for a message or chat neither seen nor forgotten."""
    require_chat(database, tenant_id, chat_id)
    if seen_message(database, tenant_id, chat_id, external_id):
        return
    with database.tenant(tenant_id) as connection:
        address = chat_moves.address(connection, chat_id, external_id)
        known = dict.fromkeys(message_rows.some_external_ids(connection, address[0], COMPARED_MESSAGES), "")
    raise _never_seen(external_id, known, f"message {external_id} of {chat_id}")


def seen_users(database: Database, tenant_id: str, *ids: str) -> bool:
    """Tell whether each of these was seen, see `require_user`. Raises `DatabaseUnavailable`."""
    with database.tenant(tenant_id) as connection:
        return all(
            identities.is_named(connection, any_id)
            or suppression.is_kept_out(connection, None, ("user", any_id), ("unremembered", any_id))
            for any_id in ids
        )


def seen_chat(database: Database, tenant_id: str, chat_id: str) -> bool:
    """Tell whether this chat exists or was forgotten. Raises `DatabaseUnavailable`."""
    with database.tenant(tenant_id) as connection:
        return chats.get(connection, chat_id) is not None or suppression.is_kept_out(
            connection, None, ("chat", chat_id)
        )


def seen_message(database: Database, tenant_id: str, chat_id: str, external_id: str) -> bool:
    """Tell whether this message exists or was forgotten. Raises `DatabaseUnavailable`."""
    with database.tenant(tenant_id) as connection:
        address = chat_moves.address(connection, chat_id, external_id)
        return edits.find(connection, *address, locked=False) is not None or suppression.is_kept_out(
            # a forgotten chat's messages are unknown
            connection,
            None,
            ("message", *address),
            ("chat", address[0]),
        )


def _never_seen(name: str, known: Mapping[str, str], called: str = "") -> NotFound:
    hint = did_you_mean(name, known, titles=known, most=SUGGESTIONS)
    return NotFound(f"{called or name} was never seen" + (f"; {hint}" if hint else ""))


def summary(chat: Chat) -> ChatSummary:
    """Describe a stored chat for listings."""
    return ChatSummary.model_validate(chat, from_attributes=True)


def chat_topics(database: Database, tenant_id: str, chat_id: str, filters: TopicFilter) -> ChatTopics:
    """Count the topics of a chat's summaries by week or month. Raises `NotFound`, `DatabaseUnavailable`."""
    with database.tenant(tenant_id) as connection:
        chat = find_chat(connection, chat_id)
        rows = chats.topics_by_period(
            connection,
            chat.chat_id,
            by=filters.by,
            zone=chat.time_zone,
            periods=filters.periods,
            limit=filters.limit,
        )
    periods = [
        TopicPeriod(
            begins=begins,
            topics=[CountedTopic.model_validate(row, from_attributes=True) for row in of_period],
        )
        for begins, of_period in groupby(rows, key=lambda row: row.begins)
    ]
    return ChatTopics(chat_id=chat.chat_id, by=filters.by, time_zone=chat.time_zone, periods=periods)
