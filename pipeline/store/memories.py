"""SQL of memories: write, find those that may matter, note that they were used."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, Row, TextClause, text
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.sql import bindparam

from pipeline.store import jobs
from pipeline.store.scope import Scope
from pipeline.store.vectors import distance, in_space, literal
from pipeline.store.visibility import Seen, Visible
from schemas.kinds import EMBED
from schemas.memories import Memory, MemoryFilter, MemoryIn
from schemas.vectors import EmbeddingSpace, Vector

_INSERT = text("""
    INSERT INTO memories (tenant_id, id, scope, type, session_id, user_id, agent_id, content, content_hash,
        importance, expires_at, source, learned_in, document_id, chunk_index, metadata, language)
    VALUES (:tenant, :id, :scope, :type, :session_id, :user_id, :agent_id, :content, :hash, :importance,
        :expires_at, :source, :learned_in, :document_id, :chunk_index, :metadata, :language)
    ON CONFLICT (tenant_id, scope, coalesce(session_id, 0), coalesce(user_id, ''), coalesce(agent_id, ''),
        coalesce(document_id, ''), content_hash)
    DO UPDATE SET importance = greatest(memories.importance, excluded.importance),
        expires_at = greatest(memories.expires_at, excluded.expires_at)
    RETURNING id, (xmax = 0) AS new
""").bindparams(bindparam("metadata", type_=JSONB))


def insert(
    connection: Connection,
    tenant_id: str,
    identity: UUID,
    memory: MemoryIn,
    content_hash: bytes,
    language: str,
) -> tuple[UUID, bool]:
    """Write a memory; the same statement in the same scope is the one that stands. `(its id, whether new)`."""
    given = memory.model_dump(exclude={"said_at", "v"}) | {
        "tenant": tenant_id,
        "id": identity,
        "hash": content_hash,
        "language": language,
    }
    row = connection.execute(_INSERT, given).one()
    return row.id, bool(row.new)


SESSIONS = 100
"""The latest so many of a chat, or of one key in it, have their memories shown."""

# Live memories of these scopes: the organization's, one agent's, one person's by all their ids, and those of sessions.
_IN_SCOPE = """
    (m.expires_at IS NULL OR m.expires_at > now())
        AND ((m.scope = 'organization')
            OR (m.scope = 'agent' AND m.agent_id = :agent)
            OR (m.scope = 'user' AND m.user_id = ANY(:users) AND m.importance >= :min_importance)
            OR (m.scope = 'session' AND m.session_id IN (SELECT s.id FROM conversation_sessions s
                WHERE s.chat_id = :chat AND s.status <> 'merged'
                    AND (CAST(:key AS text) IS NULL OR s.session_key = :key)
                ORDER BY s.ended_at DESC LIMIT :sessions)))
"""
_VISIBLE = "(:everywhere OR m.learned_in IS NULL OR m.learned_in = ANY(:chats))"

_ANY_THERE = text("SELECT EXISTS (SELECT 1 FROM memories)")


def any_there(connection: Connection) -> bool:
    """Whether the tenant has any memory."""
    return bool(connection.scalar(_ANY_THERE))


_SHARE_OF_WORDS = """(SELECT count(*)::float8 FROM unnest(CAST(:words AS text[])) w
    WHERE w = ANY(tsvector_to_array(m.tsv))) / greatest(cardinality(CAST(:words AS text[])), 1)"""


@lru_cache(maxsize=16)
def _relevant(space: EmbeddingSpace | None) -> TextClause:
    cosine, join = "NULL::float8", ""
    if space is not None:
        cosine = f"1 - ({distance(space.dimensions, 'v.embedding')})"
        join = f"""LEFT JOIN memory_vectors v ON v.tenant_id = m.tenant_id AND v.memory_id = m.id
            AND {in_space(space, "v.")}"""
    return text(f"""
        WITH alike AS (
            SELECT m.id, m.scope, m.created_at, m.type = 'document' AS is_chunk, {cosine} AS cosine,
                coalesce({cosine}, {_SHARE_OF_WORDS}) AS similarity
            FROM memories m {join}
            WHERE {_IN_SCOPE} AND {_VISIBLE}
        ), near AS (
            SELECT id, cosine, similarity, row_number() OVER (
                PARTITION BY scope, is_chunk ORDER BY similarity DESC, created_at DESC) AS place
            FROM alike
        )
        SELECT m.id, m.scope, m.type, m.content, m.content_hash, m.importance, m.source, m.learned_in,
            m.document_id, m.chunk_index, m.created_at, m.last_accessed_at, near.cosine,
            near.similarity
        FROM near JOIN memories m USING (id) WHERE near.place <= :limit
        ORDER BY near.similarity DESC, m.created_at DESC
    """)


def relevant(
    connection: Connection,
    *,
    scope: Scope,
    seen: Seen,
    agent_id: str | None,
    words: Sequence[str],
    space: EmbeddingSpace | None,
    query: Vector | None,
    min_importance: float,
    limit: int,
) -> list[Row[Any]]:
    """Live memories of the organization, this agent, whoever asks and the scope's sessions, nearest first.

    Those alone that may be shown here. At most `limit` of each of the four and as many chunks of documents, so that a
    thick handbook leaves room for a fact. `similarity` is the `cosine`, or without vectors the share of the query's
    lexemes that the memory holds.
    """
    given = {**_given(scope, seen, agent_id, min_importance), "words": list(words), "limit": limit}
    if query is not None:
        given["query"] = literal(query)
    rows = connection.execute(_relevant(None if query is None else space), given)
    return [row for row in rows if seen.visible.shows(row.learned_in)]


_COUNT_HIDDEN = text(f"SELECT count(*) FROM memories m WHERE {_IN_SCOPE} AND NOT {_VISIBLE}")


def count_hidden(
    connection: Connection, *, scope: Scope, seen: Seen, agent_id: str | None, min_importance: float
) -> int:
    """How many memories are not shown for where they were learned, whatever is asked."""
    return int(connection.execute(_COUNT_HIDDEN, _given(scope, seen, agent_id, min_importance)).scalar_one())


def _given(scope: Scope, seen: Seen, agent_id: str | None, min_importance: float) -> dict[str, Any]:
    return {
        "chat": scope.chat_id,
        "key": scope.session_key,
        "sessions": SESSIONS,
        "users": seen.asker_ids,
        "agent": agent_id,
        "min_importance": min_importance,
        "everywhere": seen.visible.everywhere,
        "chats": sorted(seen.visible.chats),
    }


_LISTING = text("""
    SELECT id, scope, type, content, user_id, agent_id, session_id, learned_in, importance, access_count,
        last_accessed_at, expires_at, source, document_id, chunk_index, metadata, created_at
    FROM memories
    WHERE (expires_at IS NULL OR expires_at > now())
        AND (CAST(:scope AS text) IS NULL OR scope = :scope)
        AND (CAST(:users AS text[]) IS NULL OR user_id = ANY(:users))
        AND (CAST(:agent AS text) IS NULL OR agent_id = :agent)
        AND (CAST(:chats AS text[]) IS NULL OR learned_in IS NULL OR learned_in = ANY(:chats))
        AND (CAST(:after AS uuid) IS NULL OR id < :after)
    ORDER BY id DESC LIMIT :limit
""")


def listing(
    connection: Connection, given: MemoryFilter, users: Sequence[str] | None, visible: Visible | None
) -> list[Memory]:
    """Live memories, the newest first; of these ids of a person, and visible in a place, where they are given."""
    rows = connection.execute(
        _LISTING,
        {
            "scope": given.scope,
            "users": users if users is None else list(users),
            "agent": given.agent_id,
            "chats": None if visible is None or visible.everywhere else sorted(visible.chats),
            "after": given.after,
            "limit": given.limit,
        },
    )
    found = [Memory(**row._mapping) for row in rows]
    return [memory for memory in found if visible is None or visible.shows(memory.learned_in)]


_DELETE = text("DELETE FROM memories WHERE id = :id")


def delete(connection: Connection, tenant_id: str, identity: UUID) -> bool:
    """Delete a memory with its vectors and its work; whether there was one."""
    gone = connection.execute(_DELETE, {"id": identity}).rowcount
    jobs.drop(connection, tenant_id, [EMBED], [f"memory:{identity}"])
    return bool(gone)


_JOINED = "unnest(CAST(:losers AS bigint[]), CAST(:survivors AS bigint[])) AS joined (loser, survivor)"
# The same statement (`memories_content`) in sessions that become one; what stands in the survivor already is kept.
_DUPLICATES = text(f"""
    SELECT CAST(id AS text) AS id, CAST(kept AS text) AS kept FROM (
        SELECT m.id, first_value(m.id) OVER same AS kept
        FROM memories m LEFT JOIN {_JOINED} ON joined.loser = m.session_id
        WHERE m.session_id = ANY(:losers) OR m.session_id = ANY(:survivors)
        WINDOW same AS (
            PARTITION BY coalesce(joined.survivor, m.session_id), m.scope, coalesce(m.user_id, ''),
                coalesce(m.agent_id, ''), coalesce(m.document_id, ''), m.content_hash
            ORDER BY joined.loser IS NOT NULL, m.created_at, m.id)
    ) alike WHERE id <> kept
    ORDER BY id
""")
# Whatever led to the duplicate leads to what is kept, so that forgetting that finds all that was made of it.
_UNITE = tuple(
    map(
        text,
        (
            """
    UPDATE memories m SET importance = greatest(m.importance, twin.importance),
        expires_at = CASE WHEN m.expires_at IS NOT NULL AND twin.expires_at IS NOT NULL
            THEN greatest(m.expires_at, twin.expires_at) END,
        source_message_ids = ARRAY(SELECT DISTINCT unnest(m.source_message_ids || twin.source_message_ids) ORDER BY 1)
    FROM memories twin WHERE m.id = CAST(:kept AS uuid) AND twin.id = CAST(:id AS uuid)
    """,
            """
    UPDATE memories SET metadata = jsonb_set(metadata, '{recalled}',
        ((metadata->'recalled') - ('memory:' || :id)) || to_jsonb('memory:' || :kept))
    WHERE type = 'qa_turn' AND metadata->'recalled' ? ('memory:' || :id)
    """,
            """
    UPDATE query_log SET shown = (shown - ('memory:' || :id))
        || jsonb_build_object('memory:' || :kept, shown->('memory:' || :id))
    WHERE shown ? ('memory:' || :id)
    """,
            "DELETE FROM memories WHERE id = CAST(:id AS uuid)",
            f"DELETE FROM jobs WHERE kind = '{EMBED}' AND key = 'memory:' || :id",
        ),
    )
)

_MOVE = text(
    f"UPDATE memories m SET session_id = joined.survivor FROM {_JOINED} WHERE m.session_id = joined.loser"
)


def move(connection: Connection, into: Mapping[int, int]) -> None:
    """Move the memories of sessions `{loser: survivor}` to their survivors.

    Of what several of them hold one memory is kept, with the highest importance, the latest expiry (none: never) and
    the messages of all; the others are deleted with their vectors and their work.
    """
    given = {"losers": list(into), "survivors": list(into.values())}
    for duplicate in connection.execute(_DUPLICATES, given).all():
        for statement in _UNITE:
            connection.execute(statement, {"id": duplicate.id, "kept": duplicate.kept})
    connection.execute(_MOVE, given)


_CHAT_OF_SESSION = text("SELECT chat_id FROM conversation_sessions WHERE id = :id AND status <> 'merged'")


def chat_of_session(connection: Connection, session_id: int) -> str | None:
    """The chat of a session, or None when there is no such session."""
    found: str | None = connection.scalar(_CHAT_OF_SESSION, {"id": session_id})
    return found


_TOUCH = text("""
    UPDATE memories SET access_count = access_count + 1, last_accessed_at = now()
    WHERE id = ANY(CAST(:ids AS uuid[]))
""")


def touch(connection: Connection, ids: Sequence[str]) -> None:
    """Note that these memories were shown."""
    connection.execute(_TOUCH, {"ids": list(ids)})


_CONTENTS = text("SELECT id, content FROM memories WHERE id = ANY(CAST(:ids AS uuid[]))")


def contents(connection: Connection, ids: Sequence[str]) -> list[tuple[UUID, str]]:
    """Return `(id, content)` of those of these memories that there are."""
    rows = connection.execute(_CONTENTS, {"ids": list(ids)})
    return [(row.id, row.content) for row in rows]
