"""SQL that reads the entity graph: entities with their counts, what is linked to them, and one hop along relations.

Every statement reads only what was said in the given chats; None means all of the tenant's.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection, Row, text

from pipeline.store.statements import column, run


def _shown(row: str) -> str:
    return f"(CAST(:chats AS text[]) IS NULL OR {row}.chat_id = ANY(:chats))"


# Its words may be those of another chat than the one that a session says it in.
_MEMORY_SHOWN = """retracted_at IS NULL
    AND (CAST(:chats AS text[]) IS NULL OR learned_in = ANY(:chats) OR also_in && CAST(:chats AS text[]))"""
# The name that most sessions write.
_DISPLAY = f"""(
    SELECT display FROM entity_aliases a WHERE a.entity_id = {{entity}} AND a.display <> '' AND {_shown("a")}
    GROUP BY display ORDER BY count(*) DESC, display LIMIT 1)"""
_LISTING = text(f"""
    SELECT e.id, {_DISPLAY.format(entity="e.id")} AS name, e.kind, nullif(e.user_id, '') AS user_id, found.*
    FROM (
        SELECT l.entity_id, count(DISTINCT l.message_id) AS mentions, count(DISTINCT l.memory_id) AS memories,
            count(DISTINCT l.session_id) AS sessions, min(l.linked_at) AS first_at, max(l.linked_at) AS last_at,
            array_agg(DISTINCT l.chat_id ORDER BY l.chat_id) AS chats
        FROM entity_links l
        WHERE {_shown("l")} AND (CAST(:ids AS bigint[]) IS NULL OR l.entity_id = ANY(:ids))
        GROUP BY l.entity_id
    ) found JOIN entities e ON e.id = found.entity_id
    WHERE CAST(:kind AS text) IS NULL OR e.kind = :kind
    ORDER BY found.mentions + found.memories DESC, found.sessions DESC, e.name, e.id LIMIT :limit
""")
_OF_NAME = text(f"""
    SELECT entity_id FROM entity_aliases a WHERE alias = :name AND {_shown("a")}
    UNION
    SELECT e.id FROM entities e WHERE e.user_id = ANY(:users) AND EXISTS (
        SELECT 1 FROM entity_aliases a WHERE a.tenant_id = e.tenant_id AND a.entity_id = e.id AND {_shown("a")})
""")
_ALIASES = text(f"""
    SELECT DISTINCT coalesce(nullif(display, ''), alias) FROM entity_aliases a
    WHERE entity_id = :id AND {_shown("a")} ORDER BY 1
""")
_LINKS = text(f"""
    SELECT l.chat_id, l.session_id, l.linked_at AS at, l.message_id, CAST(l.memory_id AS text) AS memory_id,
        coalesce(m.content, k.content, '') AS content
    FROM (
        SELECT * FROM entity_links l WHERE entity_id = :id AND {_shown("l")}
            AND (message_id IS NOT NULL OR memory_id IN (SELECT id FROM memories WHERE {_MEMORY_SHOWN}))
        ORDER BY linked_at DESC, message_id DESC LIMIT :limit
    ) l
    LEFT JOIN messages m ON m.id = l.message_id AND m.chat_id = l.chat_id
    LEFT JOIN memories k ON k.id = l.memory_id
    ORDER BY l.linked_at DESC, l.message_id DESC
""")
_PAIRS = f"""
    SELECT {{named}} AS named, r.{{near}} AS near, r.weight, r.first_at, r.last_at, r.chat_id
    FROM entity_relations r WHERE r.{{own}} = ANY(:ids) AND {_shown("r")}"""
_PAIRS_OF = (
    _PAIRS.format(named="r.entity_id", own="entity_id", near="other_id")
    + " UNION ALL "
    + _PAIRS.format(named="r.other_id", own="other_id", near="entity_id")
)
_RELATED = text(f"""
    SELECT {_DISPLAY.format(entity="e.id")} AS name, e.kind, related.weight, related.first_at, related.last_at,
        related.chats
    FROM (
        SELECT near, sum(weight) AS weight, min(first_at) AS first_at, max(last_at) AS last_at,
            array_agg(DISTINCT chat_id ORDER BY chat_id) AS chats
        FROM ({_PAIRS_OF}) pairs GROUP BY near ORDER BY sum(weight) DESC, near LIMIT :limit
    ) related JOIN entities e ON e.id = related.near
    ORDER BY related.weight DESC, e.name
""")
_NAMED = text(f"""
    SELECT entity_id, coalesce({_DISPLAY.format(entity="found.entity_id")}, alias) AS name FROM (
        SELECT entity_id, max(alias) AS alias, max(length(alias)) AS length FROM entity_aliases a
        WHERE alias = ANY(:names) AND {_shown("a")} GROUP BY entity_id
    ) found ORDER BY length DESC, entity_id LIMIT :limit
""")
# Who and what is mentioned everywhere leads nowhere. Of an entity with thousands of others only the first are weighed.
_WEIGHED = 100
_NEAR = text(f"""
    SELECT id, named, {_DISPLAY.format(entity="heaviest.id")} AS name,
        weight / sqrt(1 + (SELECT count(*) FROM entity_links l WHERE l.entity_id = heaviest.id AND {_shown("l")}))
            AS weight
    FROM (
        SELECT near AS id, (array_agg(named ORDER BY weight DESC))[1] AS named, sum(weight) AS weight
        FROM ({_PAIRS_OF}) pairs WHERE near <> ALL(:ids)
        GROUP BY near ORDER BY sum(weight) DESC, near LIMIT {_WEIGHED}
    ) heaviest ORDER BY 4 DESC, id LIMIT :limit
""")
_LINKED_MESSAGES = text("""
    SELECT near.id AS entity_id, l.message_id FROM unnest(CAST(:ids AS bigint[])) AS near (id) CROSS JOIN LATERAL (
        SELECT message_id FROM entity_links l
        WHERE l.entity_id = near.id AND l.chat_id = :chat AND l.message_id IS NOT NULL
            AND (CAST(:key AS text) IS NULL OR EXISTS (SELECT 1 FROM conversation_sessions s
                WHERE s.tenant_id = l.tenant_id AND s.id = l.session_id AND s.session_key = :key))
        ORDER BY linked_at DESC LIMIT :limit) l
""")
_LINKED_MEMORIES = text(f"""
    SELECT near.id AS entity_id, l.memory_id FROM unnest(CAST(:ids AS bigint[])) AS near (id) CROSS JOIN LATERAL (
        SELECT memory_id FROM entity_links l
        WHERE l.entity_id = near.id AND l.memory_id IS NOT NULL AND {_shown("l")}
        ORDER BY linked_at DESC LIMIT :limit) l
""")


class Near(NamedTuple):
    """An entity one hop away from those that a question names."""

    id: int
    # as it is mostly written
    name: str
    # the entity that leads to it
    named: int
    weight: float


def listing(
    connection: Connection,
    chats: Sequence[str] | None,
    *,
    limit: int,
    kind: str | None = None,
    ids: Sequence[int] | None = None,
) -> Sequence[Row[Any]]:
    """Return entities with their counts, of these ids or all, the most mentioned first."""
    return run(connection, _LISTING, chats=chats, kind=kind, ids=ids, limit=limit).all()


def of_name(
    connection: Connection, chats: Sequence[str] | None, name: str, users: Sequence[str]
) -> list[int]:
    """Return the entities that a normalized name means, or that are these senders."""
    return column(connection, _OF_NAME, chats=chats, name=name, users=users)


def aliases(connection: Connection, chats: Sequence[str] | None, entity_id: int) -> list[str]:
    """Return every name of an entity."""
    return column(connection, _ALIASES, chats=chats, id=entity_id)


def links(
    connection: Connection, chats: Sequence[str] | None, entity_id: int, limit: int
) -> Sequence[Row[Any]]:
    """Return the latest messages and memories that name an entity, with their texts."""
    return run(connection, _LINKS, chats=chats, id=entity_id, limit=limit).all()


def related(
    connection: Connection, chats: Sequence[str] | None, entity_id: int, limit: int
) -> Sequence[Row[Any]]:
    """Return what is mentioned together with an entity, the closest first."""
    return run(connection, _RELATED, chats=chats, ids=[entity_id], limit=limit).all()


def named(
    connection: Connection, chats: Sequence[str] | None, names: Sequence[str], limit: int
) -> dict[int, str]:
    """Return the entities that have one of these normalized names, each as it is mostly written; long names first."""
    rows = run(connection, _NAMED, chats=chats, names=names, limit=limit)
    return {row.entity_id: row.name for row in rows}


def near(
    connection: Connection, chats: Sequence[str] | None, entity_ids: Sequence[int], limit: int
) -> list[Near]:
    """Return what is one hop away from these entities, the closest first, what is everywhere last."""
    rows = run(connection, _NEAR, chats=chats, ids=entity_ids, limit=limit)
    return [Near(row.id, row.name or "", row.named, float(row.weight)) for row in rows]


def linked_messages(
    connection: Connection, chat_id: str, session_key: str | None, entity_ids: Sequence[int], limit: int
) -> list[tuple[int, int]]:
    """Return `(entity, message)` of a chat, of one session key or all: for each entity its latest ones."""
    rows = run(connection, _LINKED_MESSAGES, chat=chat_id, key=session_key, ids=entity_ids, limit=limit)
    return [(row.entity_id, row.message_id) for row in rows]


def linked_memories(
    connection: Connection, chats: Sequence[str] | None, entity_ids: Sequence[int], limit: int
) -> list[tuple[int, str]]:
    """Return `(entity, memory)`: for each entity the latest ones that name it."""
    rows = run(connection, _LINKED_MEMORIES, chats=chats, ids=entity_ids, limit=limit)
    return [(row.entity_id, str(row.memory_id)) for row in rows]
