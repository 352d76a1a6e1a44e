"""SQL of memories that were made of messages, and of contexts that showed them: found by an index, and deleted."""

from collections.abc import Sequence
from uuid import UUID

from sqlalchemy import Connection, text

from pipeline.store import jobs
from schemas.kinds import EMBED

_WITH_POINTERS = text("""
    SELECT id FROM conversation_sessions WHERE id = ANY(:sessions) OR merged_into = ANY(:sessions)
    ORDER BY id
""")


def with_pointers(connection: Connection, session_ids: Sequence[int]) -> list[int]:
    """These sessions and those that were joined into them: a context may have shown either."""
    return list(connection.scalars(_WITH_POINTERS, {"sessions": list(session_ids)}))


_DROP_MEMORIES = text("""
    WITH given AS MATERIALIZED (
        SELECT DISTINCT quotable(content) AS said FROM unnest(CAST(:texts AS text[])) AS content
    )
    SELECT id FROM memories CROSS JOIN LATERAL (
        SELECT quotable(question_of(type, content, metadata)) AS asked OFFSET 0) AS question
    WHERE id = ANY(ARRAY(SELECT memories_with(:chat, CAST(:items AS text[]), CAST(:texts AS text[]))))
        AND (source_message_ids && CAST(:messages AS bigint[]) OR source_session_id = ANY(:sessions)
            OR type = 'qa_turn' AND learned_in = :chat AND (metadata->'recalled' ?| CAST(:items AS text[])
                OR EXISTS (SELECT 1 FROM given WHERE quotes(asked, said))))
    ORDER BY id LIMIT :limit
""")


def drop_memories(
    connection: Connection,
    tenant_id: str,
    chat_id: str,
    *,
    message_ids: Sequence[int],
    session_ids: Sequence[int],
    texts: Sequence[str],
    limit: int | None = None,
) -> list[UUID]:
    """Delete the memories, at most so many, made of messages of a chat or of sessions that hold them; their ids.

    With them go question and answer of contexts that showed any of these, or whose question says what the `texts`
    say, and so on.
    """
    found = connection.scalars(
        _DROP_MEMORIES,
        {
            "chat": chat_id,
            "messages": list(message_ids),
            "sessions": list(session_ids),
            "items": items_of(message_ids, session_ids),
            "texts": list(texts),
            "limit": limit,
        },
    )
    return drop(connection, tenant_id, found.all())


_DROP_RECALLING = text("""
    SELECT id FROM memories
    WHERE id = ANY(ARRAY(SELECT memories_with(NULL, CAST(:items AS text[]), '{}')))
        AND type = 'qa_turn' AND EXISTS (
            SELECT 1 FROM jsonb_array_elements_text(metadata->'recalled') AS item
            WHERE item IN (SELECT unnest(CAST(:items AS text[]))))
""")


def drop_recalling(connection: Connection, tenant_id: str, memory_ids: Sequence[UUID]) -> list[UUID]:
    """Delete the questions and answers of contexts that showed these memories, and so on; their ids."""
    if not memory_ids:
        return []
    found = connection.scalars(_DROP_RECALLING, {"items": memory_items(memory_ids)})
    return drop(connection, tenant_id, found.all())


_DROP = text("""
    WITH locked AS MATERIALIZED (SELECT id FROM memories WHERE id = ANY(:ids) ORDER BY id FOR UPDATE)
    DELETE FROM memories m USING locked WHERE m.id = locked.id RETURNING m.id
""")


def drop(connection: Connection, tenant_id: str, memory_ids: Sequence[UUID]) -> list[UUID]:
    """Delete these memories, those that were made of contexts which showed them, and all their work; their ids."""
    if not memory_ids:
        return []
    gone = connection.scalars(_DROP, {"ids": list(memory_ids)}).all()
    jobs.drop(connection, tenant_id, [EMBED], [f"memory:{each}" for each in gone])
    return [*gone, *drop_recalling(connection, tenant_id, gone)]


def items_of(message_ids: Sequence[int], session_ids: Sequence[int]) -> list[str]:
    """Messages and sessions as the query log and memories name them."""
    return [*(f"message:{each}" for each in message_ids), *(f"session:{each}" for each in session_ids)]


def memory_items(memory_ids: Sequence[UUID]) -> list[str]:
    """Memories as the query log and other memories name them: a document's chunks are memories, too."""
    return [f"{kind}:{each}" for each in memory_ids for kind in ("memory", "document")]
