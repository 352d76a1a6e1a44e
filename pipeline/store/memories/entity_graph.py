"""SQL of the entity graph: the entities that believed and visible memories name, and their relations.

What a memory names goes with the memory: whatever deletes, moves or hides that does so with its entities.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from sqlalchemy import Connection, Row, text

from pipeline.store.chats.membership import Seen
from pipeline.store.connections.statements import arrays, run
from pipeline.store.memories.memory_conditions import BELIEVED, LIVE, SAID, since, visibility, visible

_COLUMNS = "user_id, entity, name, alias, short, kind, relation"
# Only as the first session names it: the names of another chat would be shown wherever the memory is.
_NOTE = text(f"""
    INSERT INTO memory_entities (tenant_id, memory_id, {_COLUMNS})
    SELECT :tenant, CAST(:memory AS uuid), given.*
    FROM unnest(CAST(:users AS text[]), CAST(:entities AS text[]), CAST(:names AS text[]), CAST(:aliases AS text[]),
        CAST(:shorts AS text[]), CAST(:kinds AS text[]), CAST(:relations AS text[])) AS given
    WHERE NOT EXISTS (SELECT 1 FROM memory_entities WHERE memory_id = CAST(:memory AS uuid))
    ON CONFLICT DO NOTHING
""")
_COPY = text(f"""
    INSERT INTO memory_entities (tenant_id, memory_id, {_COLUMNS})
    SELECT tenant_id, CAST(:copy AS uuid), {_COLUMNS} FROM memory_entities WHERE memory_id = CAST(:id AS uuid)
""")

_SHOWN = f"""
    SELECT e.*, m.content, m.importance, m.learned_in, m.also_in, {since("m")} AS at
    FROM memory_entities e JOIN memories m ON m.tenant_id = e.tenant_id AND m.id = e.memory_id
    WHERE {LIVE} AND {visible("m")} AND {SAID} AND {BELIEVED}"""
_CHATS = """unnest(array_append(also_in, learned_in)) AS chat
    ON chat IS NOT NULL AND (:everywhere OR chat = ANY(CAST(:chats AS text[])))"""
_COUNTED = """mode() WITHIN GROUP (ORDER BY name) AS name,
    coalesce(mode() WITHIN GROUP (ORDER BY nullif(kind, 'unknown')), 'unknown') AS kind,
    count(DISTINCT memory_id) AS memories, min(at) AS first_at, max(at) AS last_at,
    coalesce(array_agg(DISTINCT chat ORDER BY chat) FILTER (WHERE chat IS NOT NULL), '{}') AS chats"""
# The most important memory about the entity, otherwise the most important one that names it.
_LISTING = text(f"""
    SELECT * FROM (
        SELECT user_id, entity, {_COUNTED},
            (array_agg(content ORDER BY relation = '' DESC, importance DESC, at DESC))[1] AS description
        FROM ({_SHOWN} AND (CAST(:name AS text) IS NULL OR e.alias = :name OR e.short = :name
            OR e.user_id = ANY(:users))) shown LEFT JOIN LATERAL {_CHATS}
        GROUP BY user_id, entity
    ) listed WHERE CAST(:kind AS text) IS NULL OR kind = :kind
    ORDER BY memories DESC, name, user_id, entity LIMIT :limit
""")
_ALIASES = text(f"""
    SELECT DISTINCT name FROM ({_SHOWN} AND e.user_id = :user AND e.entity = :entity) shown ORDER BY 1
""")
_LINKS = text(f"""
    SELECT DISTINCT ON (at, memory_id) memory_id, at, content, learned_in, also_in
    FROM ({_SHOWN} AND e.user_id = :user AND e.entity = :entity) shown
    ORDER BY at DESC, memory_id DESC LIMIT :limit
""")
# The subject of a memory, and the entities related to it.
_PAIRED = """JOIN memory_entities other ON other.tenant_id = own.tenant_id AND other.memory_id = own.memory_id
    AND (other.user_id, other.entity) <> (own.user_id, own.entity)"""
_RELATED = text(f"""
    SELECT relation, inverse, {_COUNTED} FROM (
        SELECT other.user_id, other.entity, other.name, other.kind, own.memory_id, own.at, own.learned_in, own.also_in,
            own.relation || other.relation AS relation, own.relation <> '' AS inverse
        FROM ({_SHOWN} AND e.user_id = :user AND e.entity = :entity) own {_PAIRED}
    ) shown LEFT JOIN LATERAL {_CHATS}
    GROUP BY user_id, entity, relation, inverse ORDER BY memories DESC, last_at DESC, name, relation LIMIT :limit
""")
# Of what thousands of memories name only the latest are read, and beyond this limit their number does not matter.
_READ = 100
# Every memory about a person has their name: only memories about others lead on.
_REACHED = text(f"""
    WITH named AS MATERIALIZED (
        SELECT found.user_id, found.entity, max(one.name) AS name FROM (
            SELECT DISTINCT user_id, entity, alias FROM memory_entities
            WHERE alias = ANY(:names) OR short = ANY(:names) OR user_id = ANY(:users)) found
        CROSS JOIN LATERAL ({_SHOWN} AND e.user_id = found.user_id AND e.entity = found.entity
            AND e.alias = found.alias ORDER BY e.memory_id DESC LIMIT 1) one
        GROUP BY 1, 2 ORDER BY max(length(found.alias)) DESC, 1, 2 LIMIT :named
    ), near AS MATERIALIZED (
        SELECT DISTINCT ON (other.user_id, other.entity) other.user_id, other.entity, other.name, named.name AS named,
            own.relation || other.relation AS relation
        FROM named CROSS JOIN LATERAL ({_SHOWN} AND e.user_id = named.user_id AND e.entity = named.entity
            ORDER BY e.memory_id DESC LIMIT {_READ}) own {_PAIRED}
        WHERE (other.user_id, other.entity) NOT IN (SELECT user_id, entity FROM named)
        ORDER BY other.user_id, other.entity, own.at DESC, own.memory_id DESC, own.relation
    ), nearest AS MATERIALIZED (
        SELECT near.* FROM near CROSS JOIN LATERAL (
            SELECT count(*) AS links FROM (SELECT 1 FROM memory_entities e
                WHERE e.user_id = near.user_id AND e.entity = near.entity LIMIT {_READ}) some_of) counted
        ORDER BY links, name, user_id, entity LIMIT :near
    ), reached AS (
        SELECT user_id, entity, name AS named, '' AS name, '' AS relation FROM named
        UNION ALL SELECT user_id, entity, named, name, relation FROM nearest
    )
    SELECT DISTINCT ON (linked.memory_id) linked.memory_id, reached.named, reached.name, reached.relation
    FROM reached CROSS JOIN LATERAL (
        {_SHOWN} AND e.user_id = reached.user_id AND e.entity = reached.entity
            AND (e.relation <> '' OR reached.name <> '')
        ORDER BY e.memory_id DESC LIMIT :links) linked
    ORDER BY linked.memory_id, reached.name <> '', reached.name
""")


class EntityRow(NamedTuple):
    """An entity that a memory names, under one of its names."""

    # the sender's id of a person who writes; empty: `entity` identifies it
    user_id: str
    entity: str
    # as it is written, normalized, and the first name of a person; empty: it has none
    name: str
    alias: str
    short: str
    kind: str
    # its relation to the memory's subject; empty: it is the subject
    relation: str


class Reached(NamedTuple):
    """A memory that relates something to what a question names, or is of what that is related to."""

    memory_id: UUID
    named: str
    # empty: it relates something to what is named
    name: str
    relation: str


def note(connection: Connection, tenant_id: str, memory_id: UUID, named: Sequence[EntityRow]) -> None:
    """Write the entities that a memory names, unless they are stored already."""
    if named:
        values = arrays("users entities names aliases shorts kinds relations", named)
        run(connection, _NOTE, tenant=tenant_id, memory=memory_id, **values)


def copy(connection: Connection, memory_id: UUID, into: UUID) -> None:
    """Copy the entities of a memory to its copy."""
    run(connection, _COPY, id=memory_id, copy=into)


def drop(connection: Connection, memory_id: UUID) -> None:
    """Delete the entities of a memory whose words have changed."""
    run(connection, "DELETE FROM memory_entities WHERE memory_id = CAST(:id AS uuid)", id=memory_id)


def drop_people(connection: Connection, senders: Sequence[str]) -> None:
    """Delete these senders as entities, together with the relations of others to them."""
    run(connection, "DELETE FROM memory_entities WHERE user_id = ANY(:senders)", senders=senders)


def listing(
    connection: Connection,
    seen: Seen | None,
    *,
    limit: int,
    kind: str | None = None,
    name: str | None = None,
    users: Sequence[str] = (),
) -> Sequence[Row[Any]]:
    """Return entities by normalized name, by these senders, or all; those with most memories first."""
    values = {"name": name, "users": users, "kind": kind, "limit": limit}
    return run(connection, _LISTING, **values, **_now(seen)).all()


def aliases(connection: Connection, seen: Seen | None, user_id: str, entity: str) -> list[str]:
    """Return every name of an entity."""
    rows = run(connection, _ALIASES, user=user_id, entity=entity, **_now(seen))
    return [row.name for row in rows]


def links(
    connection: Connection, seen: Seen | None, user_id: str, entity: str, limit: int
) -> Sequence[Row[Any]]:
    """Return the latest memories that name an entity."""
    return run(connection, _LINKS, user=user_id, entity=entity, limit=limit, **_now(seen)).all()


def related(
    connection: Connection, seen: Seen | None, user_id: str, entity: str, limit: int
) -> Sequence[Row[Any]]:
    """Return the entities related to an entity with their relations, those that most memories state first."""
    return run(connection, _RELATED, user=user_id, entity=entity, limit=limit, **_now(seen)).all()


def reached(
    connection: Connection,
    seen: Seen | None,
    *,
    names: Sequence[str],
    users: Sequence[str],
    as_of: datetime | None,
    named: int,
    near: int,
    links: int,
) -> list[Reached]:
    """Return memories that relate something to entities with these normalized names or ids, or are of what is related.

    Of at most `named` and `near` entities the `links` written last; of `near` those that fewest memories name.
    """
    values = {"names": names, "users": users, "named": named, "near": near, "links": links}
    return [Reached(*row) for row in run(connection, _REACHED, as_of=as_of, **values, **visibility(seen))]


def _now(seen: Seen | None) -> dict[str, Any]:
    return {"as_of": None, **visibility(seen)}
