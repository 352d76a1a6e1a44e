"""List entities, and show one with its links and relations; with a chat, only what may be shown there."""

from typing import Any

from sqlalchemy import Connection, Row

from pipeline.memories.statements import seen_in
from pipeline.store.chats.membership import EVERYWHERE, Seen
from pipeline.store.connections.database import Database
from pipeline.store.memories import entity_graph as store
from pipeline.store.people import identities
from pipeline.text import truncate
from pipeline.text.entity_names import normalized
from schemas.errors import NotFound
from schemas.memory.entities import (
    Entity,
    EntityFilter,
    EntityLink,
    EntityList,
    EntityPlace,
    ListedEntity,
    NamedEntities,
    RelatedEntity,
)

LINKS = 20
RELATED = 20
OF_A_NAME = 20
"""Entities shown of one name."""
PREVIEW_CHARS = 160


def listing(database: Database, tenant_id: str, filters: EntityFilter) -> EntityList:
    """List entities, those of most memories first. Raises `NotFound` for an unknown chat, `DatabaseUnavailable`."""
    with database.tenant(tenant_id) as connection:
        seen, _ = seen_in(connection, filters.chat_id, filters.user_id)
        rows = store.listing(connection, seen, kind=filters.kind, limit=filters.limit)
    return EntityList(entities=[ListedEntity(**_listed(row)) for row in rows])


def show(database: Database, tenant_id: str, name: str, place: EntityPlace) -> NamedEntities:
    """Return the entities of a name or of a person's id, with links and relations.

    Raises `NotFound` for an unknown chat and a name that no memory names, `DatabaseUnavailable`.
    """
    with database.tenant(tenant_id) as connection:
        seen, here = seen_in(connection, place.chat_id, place.user_id)
        users = identities.ids_of(connection, name)
        rows = store.listing(connection, seen, name=normalized(name), users=users, limit=OF_A_NAME)
        if not rows:
            raise NotFound(f"no memory names {name}: see `backscroll entities list`")
        return NamedEntities(entities=[_entity(connection, seen, here, row) for row in rows])


def _listed(row: Row[Any]) -> dict[str, Any]:
    return {
        **{name: row._mapping[name] for name in ListedEntity.model_fields},
        "user_id": row.user_id or None,
    }


def _entity(connection: Connection, seen: Seen | None, here: str | None, row: Row[Any]) -> Entity:
    visible = EVERYWHERE if seen is None else seen.visible
    links = [
        EntityLink(
            memory_id=str(link.memory_id),
            chat_id=visible.source(link.learned_in, link.also_in, here),
            at=link.at,
            preview=truncate.shortened(truncate.one_line(link.content), PREVIEW_CHARS),
        )
        for link in store.links(connection, seen, row.user_id, row.entity, LINKS)
    ]
    related = [
        RelatedEntity.model_validate(relation._mapping)
        for relation in store.related(connection, seen, row.user_id, row.entity, RELATED)
    ]
    aliases = store.aliases(connection, seen, row.user_id, row.entity)
    return Entity(**_listed(row), aliases=aliases, links=links, related=related)
