"""SQL that writes the entity graph, session by session, and erases from it."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from sqlalchemy import Connection, text

from pipeline.store.statements import arrays, column, run

_PEOPLE = text("""
    SELECT DISTINCT e.user_id, a.display FROM entity_aliases a
    JOIN entities e ON e.tenant_id = a.tenant_id AND e.id = a.entity_id
    WHERE a.chat_id = :chat AND a.display <> '' AND e.user_id <> ''
    ORDER BY e.user_id, a.display
""")
# In one order, so that two sessions that name the same do not wait for each other in a circle.
_LOCK = text("""
    SELECT id FROM entities WHERE id IN (
        SELECT entity_id FROM entity_aliases WHERE session_id = ANY(:sessions)
        UNION ALL SELECT e.id FROM entities e JOIN unnest(CAST(:names AS text[]), CAST(:users AS text[]))
            AS given (name, user_id) ON e.name = given.name AND e.user_id = given.user_id)
    ORDER BY id FOR UPDATE
""")
_CLEAR = text("""
    WITH aliases AS (DELETE FROM entity_aliases WHERE session_id = ANY(:sessions)),
        relations AS (DELETE FROM entity_relations WHERE session_id = ANY(:sessions))
    DELETE FROM entity_links WHERE session_id = ANY(:sessions)
""")
# A statement of its own: it sees what others have linked until the entities were locked.
_DROP_UNUSED = text("""
    DELETE FROM entities e WHERE id = ANY(:ids)
        AND NOT EXISTS (SELECT 1 FROM entity_aliases a WHERE a.tenant_id = e.tenant_id AND a.entity_id = e.id)
""")
_PUT = text("""
    INSERT INTO entities (tenant_id, name, user_id, kind)
    SELECT :tenant, name, user_id, kind
    FROM unnest(CAST(:names AS text[]), CAST(:users AS text[]), CAST(:kinds AS text[])) AS given (name, user_id, kind)
    ORDER BY name, user_id
    ON CONFLICT (tenant_id, name, user_id) DO UPDATE
        SET kind = CASE excluded.kind WHEN 'unknown' THEN entities.kind ELSE excluded.kind END
    RETURNING id, name, user_id
""")
_LINK = text("""
    WITH aliases AS (
        INSERT INTO entity_aliases (tenant_id, session_id, chat_id, entity_id, alias, display)
        SELECT :tenant, :session, :chat, entity, alias, display
        FROM unnest(CAST(:alias_entities AS bigint[]), CAST(:aliases AS text[]), CAST(:displays AS text[]))
            AS given (entity, alias, display)
    ), relations AS (
        INSERT INTO entity_relations (tenant_id, session_id, chat_id, entity_id, other_id, weight, first_at, last_at)
        SELECT :tenant, :session, :chat, least(one, other), greatest(one, other), weight, first_at, last_at
        FROM unnest(CAST(:ones AS bigint[]), CAST(:others AS bigint[]), CAST(:weights AS float8[]),
            CAST(:firsts AS timestamptz[]), CAST(:lasts AS timestamptz[]))
            AS given (one, other, weight, first_at, last_at)
    )
    INSERT INTO entity_links (tenant_id, session_id, chat_id, entity_id, message_id, memory_id, linked_at)
    SELECT :tenant, :session, :chat, entity, message, memory, at
    FROM unnest(CAST(:link_entities AS bigint[]), CAST(:messages AS bigint[]), CAST(:memories AS uuid[]),
        CAST(:times AS timestamptz[])) AS given (entity, message, memory, at)
""")
_DROP_PEOPLE = text("DELETE FROM entities WHERE user_id = ANY(:senders)")
_UNUSED = text("""
    SELECT id FROM entities e WHERE NOT EXISTS (
        SELECT 1 FROM entity_aliases a WHERE a.tenant_id = e.tenant_id AND a.entity_id = e.id)
    ORDER BY id FOR UPDATE SKIP LOCKED
""")
_MOVE = text("""
    WITH aliases AS (UPDATE entity_aliases SET chat_id = :into WHERE session_id = ANY(:sessions)),
        relations AS (UPDATE entity_relations SET chat_id = :into WHERE session_id = ANY(:sessions))
    UPDATE entity_links SET chat_id = :into WHERE session_id = ANY(:sessions)
""")


class EntityKey(NamedTuple):
    """What an entity is known by."""

    # normalized, or the sender's id of a person who writes
    name: str
    # of a person who writes; empty: nobody who does
    user_id: str


class AliasRow(NamedTuple):
    """How a session names an entity."""

    entity_id: int
    alias: str
    display: str


class LinkRow(NamedTuple):
    """A message or a memory of a session that names an entity, or that session as a whole."""

    entity_id: int
    message_id: int | None
    memory_id: UUID | None
    at: datetime


class RelationRow(NamedTuple):
    """Two entities that a session names together."""

    entity_id: int
    other_id: int
    weight: float
    first_at: datetime
    last_at: datetime


def people(connection: Connection, chat_id: str) -> list[tuple[str, str]]:
    """Return `(sender's id, name)` of those who write in a chat, by every name that they had there."""
    return [(row.user_id, row.display) for row in run(connection, _PEOPLE, chat=chat_id)]


def lock(connection: Connection, session_ids: Sequence[int], new: Sequence[EntityKey] = ()) -> list[int]:
    """Lock the entities of these sessions and those of these keys; return the ids of all."""
    return column(connection, _LOCK, sessions=session_ids, **arrays("names users", new))


def clear(connection: Connection, session_ids: Sequence[int]) -> None:
    """Delete what sessions say of entities, and the entities that nothing else names."""
    there = lock(connection, session_ids)
    if there:
        empty(connection, session_ids)
        drop_unused(connection, there)


def empty(connection: Connection, session_ids: Sequence[int]) -> None:
    """Delete what sessions say of their entities, which are locked; `drop_unused` is left to the caller."""
    run(connection, _CLEAR, sessions=session_ids)


def drop_unused(connection: Connection, entity_ids: Sequence[int]) -> None:
    """Delete those of these locked entities that no session names."""
    run(connection, _DROP_UNUSED, ids=entity_ids)


def drop_all_unused(connection: Connection) -> None:
    """Delete the tenant's entities that no session names any more."""
    drop_unused(connection, column(connection, _UNUSED))


def drop_people(connection: Connection, senders: Sequence[str]) -> int:
    """Delete these senders as entities, with all that names them; return how many there were."""
    return run(connection, _DROP_PEOPLE, senders=senders).rowcount


def put(
    connection: Connection, tenant_id: str, found: Sequence[tuple[EntityKey, str]]
) -> dict[EntityKey, int]:
    """Write entities with their kinds, unless they are there; return their ids."""
    given = arrays("names users kinds", [(*key, kind) for key, kind in found])
    return {
        EntityKey(row.name, row.user_id): row.id for row in run(connection, _PUT, tenant=tenant_id, **given)
    }


def link(
    connection: Connection,
    tenant_id: str,
    session_id: int,
    chat_id: str,
    *,
    named: Sequence[AliasRow],
    links: Sequence[LinkRow],
    relations: Sequence[RelationRow],
) -> None:
    """Write what a session says of its entities."""
    run(
        connection,
        _LINK,
        tenant=tenant_id,
        session=session_id,
        chat=chat_id,
        **arrays("alias_entities aliases displays", named),
        **arrays("link_entities messages memories times", links),
        **arrays("ones others weights firsts lasts", relations),
    )


def move(connection: Connection, into: str, session_ids: Sequence[int]) -> None:
    """Move what sessions say of entities to the chat that they were moved to."""
    run(connection, _MOVE, into=into, sessions=session_ids)
