"""List entities, and show one with its links and relations; with a chat, only what may be shown there."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, Row

from pipeline.people import visibility
from pipeline.store import chats, identities
from pipeline.store import entity_search as store
from pipeline.store.database import Database
from pipeline.text import truncate
from pipeline.text.entity_names import normalized
from schemas.entities import (
    Entity,
    EntityFilter,
    EntityLink,
    EntityList,
    EntityPlace,
    ListedEntity,
    NamedEntities,
    RelatedEntity,
)
from schemas.errors import NotFound

LINKS = 20
RELATED = 20
OF_A_NAME = 20
"""Entities of one name that are shown."""
PREVIEW_CHARS = 160


def listing(database: Database, tenant_id: str, wanted: EntityFilter) -> EntityList:
    """List entities, the most mentioned first. Raises `NotFound` for an unknown chat, `DatabaseUnavailable`."""
    with database.tenant(tenant_id) as connection:
        shown = _shown(connection, wanted)
        rows = store.listing(connection, shown, kind=wanted.kind, limit=wanted.limit)
    return EntityList(entities=[ListedEntity(**_listed(row)) for row in rows])


def show(database: Database, tenant_id: str, name: str, place: EntityPlace) -> NamedEntities:
    """Return the entities of a name or of a person's id, with links and relations.

    Raises `NotFound` for an unknown chat and a name that nobody mentions, `DatabaseUnavailable`.
    """
    with database.tenant(tenant_id) as connection:
        shown = _shown(connection, place)
        ids = store.of_name(connection, shown, normalized(name), identities.ids_of(connection, name))
        found = store.listing(connection, shown, ids=ids, limit=OF_A_NAME) if ids else []
        if not found:
            raise NotFound(f"nobody mentions {name}: see `backscroll entities list`")
        return NamedEntities(entities=[_entity(connection, shown, row) for row in found])


def _shown(connection: Connection, place: EntityPlace) -> list[str] | None:
    """Return the chats from which something may be shown; None: all."""
    if place.chat_id is None:
        return None
    chat = chats.followed(connection, place.chat_id)
    if chat is None:
        raise NotFound(f"there is no chat {place.chat_id}: see `backscroll chats`")
    visible = visibility.seen(connection, chat.chat_id, chat.kind, place.user_id).visible
    return None if visible.everywhere else sorted(visible.chats)


def _listed(row: Row[Any]) -> dict[str, Any]:
    return {name: row._mapping[name] for name in ListedEntity.model_fields}


def _entity(connection: Connection, shown: Sequence[str] | None, row: Row[Any]) -> Entity:
    links = [
        EntityLink(
            chat_id=link.chat_id,
            session_id=link.session_id,
            at=link.at,
            message_id=link.message_id,
            memory_id=link.memory_id,
            preview=truncate.shortened(truncate.one_line(link.content), PREVIEW_CHARS),
        )
        for link in store.links(connection, shown, row.id, LINKS)
    ]
    related = [
        RelatedEntity.model_validate(each._mapping)
        for each in store.related(connection, shown, row.id, RELATED)
    ]
    return Entity(
        **_listed(row), aliases=store.aliases(connection, shown, row.id), links=links, related=related
    )
