"""SQL of memories: write, find those that may matter, note that they were used."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, Row, text
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.sql import bindparam

from pipeline.store.vectors import literal
from schemas.memories import MemoryIn
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
    given = memory.model_dump() | {
        "tenant": tenant_id,
        "id": identity,
        "hash": content_hash,
        "language": language,
    }
    row = connection.execute(_INSERT, given).one()
    return row.id, bool(row.new)


def relevant(
    connection: Connection,
    *,
    user_id: str | None,
    agent_id: str | None,
    chat_id: str,
    words: Sequence[str],
    space: EmbeddingSpace | None,
    query: Vector | None,
    min_importance: float,
    limit: int,
) -> Sequence[Row[Any]]:
    """Live memories of the organization, this agent and this user, nearest first.

    What was learned in another chat is left out, as long as nobody says who was there. `similarity` is the
    cosine, or without vectors the share of the query's lexemes that the memory holds.
    """
    similarity, join = (
        "(SELECT count(*)::float8 FROM unnest(CAST(:words AS text[])) w"
        " WHERE w = ANY(tsvector_to_array(m.tsv)))"
        " / greatest(cardinality(CAST(:words AS text[])), 1)",
        "",
    )
    if space is not None and query is not None:
        size = int(space.dimensions)
        similarity = (
            f"coalesce(1 - (v.embedding::halfvec({size}) <=> CAST(:query AS halfvec({size}))), {similarity})"
        )
        join = f"""LEFT JOIN memory_vectors v ON v.tenant_id = m.tenant_id AND v.memory_id = m.id
            AND v.space_id = {int(space.id or 0)}"""
    return connection.execute(
        text(f"""
            SELECT m.id, m.scope, m.type, m.content, m.importance, m.source, m.document_id, m.chunk_index,
                m.created_at, m.last_accessed_at, {similarity} AS similarity
            FROM memories m {join}
            WHERE m.superseded_by IS NULL AND (m.expires_at IS NULL OR m.expires_at > now())
                AND (m.learned_in IS NULL OR m.learned_in = :chat)
                AND ((m.scope = 'organization')
                    OR (m.scope = 'agent' AND m.agent_id = :agent)
                    OR (m.scope = 'user' AND m.user_id = :user AND m.importance >= :min_importance))
            ORDER BY similarity DESC, m.created_at DESC LIMIT :limit
        """),
        {
            "user": user_id,
            "agent": agent_id,
            "chat": chat_id,
            "words": list(words),
            "query": literal(query) if query is not None else None,
            "min_importance": min_importance,
            "limit": limit,
        },
    ).all()


def touch(connection: Connection, ids: Sequence[str]) -> None:
    """Note that these memories were shown."""
    connection.execute(
        text("""
            UPDATE memories SET access_count = access_count + 1, last_accessed_at = now()
            WHERE id = ANY(CAST(:ids AS uuid[]))
        """),
        {"ids": list(ids)},
    )
