"""Show a person's page: current memories, with time and source, and superseded or wrong ones."""

from collections import defaultdict
from collections.abc import Mapping
from typing import Any
from uuid import UUID

from sqlalchemy import Row

from pipeline.memories import statements
from pipeline.people import identities
from pipeline.store.chats.membership import EVERYWHERE
from pipeline.store.connections.database import Database
from pipeline.store.memories import memory_pages as store
from pipeline.store.people import identities as identity_rows
from schemas.people.user_pages import MAX_MESSAGES, KnownMemory, NamedChat, NamedMessage, UserFilter, UserPage


def user_page(database: Database, tenant_id: str, any_id: str, filters: UserFilter) -> UserPage:
    """Return the memories of a sender or user, under all their ids; with `chat_id` only those that may be shown there.

    An unknown id is a user of its own without memories. Documents are left out. Raises `NotFound` for an unknown chat,
    and `DatabaseUnavailable`.
    """
    with database.tenant(tenant_id) as connection:
        seen, _ = statements.seen_in(connection, filters.chat_id, any_id)
        visible = EVERYWHERE if seen is None else seen.visible
        person = identities.person(connection, any_id, visible)
        ids = identity_rows.ids_of(connection, any_id)
        rows = store.known(connection, ids, visible, after=filters.after, limit=filters.limit)
        messages = defaultdict[UUID, list[NamedMessage]](list)
        for row in store.messages(connection, [row.id for row in rows], visible, MAX_MESSAGES):
            fields = dict(row._mapping)
            messages[fields.pop("memory_id")].append(NamedMessage(**fields))
        named = {chat for row in rows for chat in (row.learned_in, *row.also_in) if chat is not None}
        titles = store.titles(connection, sorted(chat for chat in named if visible.shows(chat)))
    known = [(row.is_earlier, _known(row, messages[row.id], titles)) for row in rows]
    return UserPage(
        **person.model_dump(),
        current=[memory for is_earlier, memory in known if not is_earlier],
        earlier=[memory for is_earlier, memory in known if is_earlier],
    )


def _known(row: Row[Any], messages: list[NamedMessage], titles: Mapping[str, str]) -> KnownMemory:
    """Return a memory with those of its chats that may be named."""
    fields = {name: value for name, value in row._mapping.items() if name != "is_earlier"}
    places = [
        NamedChat(chat_id=chat, title=titles[chat] or "")
        for chat in (row.learned_in, *row.also_in)
        if chat in titles
    ]
    first = next((place for place in places if place.chat_id == row.learned_in), None)
    fields |= {"learned_in": first, "also_in": [p for p in places if p != first], "messages": messages}
    return KnownMemory(**fields)
