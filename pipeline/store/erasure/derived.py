"""SQL of data derived from messages: delete memories made from them, and count what is left of a text."""

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from pgvector import HalfVector
from sqlalchemy import Connection, Row, text

from pipeline.store import vectors
from pipeline.store.connections.statements import column, knowing_vectors, number, run
from pipeline.store.jobs import jobs
from schemas.kinds import FENCED_BY_CHANGE

_WITH_POINTERS = text("""
    SELECT id FROM conversation_sessions WHERE id = ANY(:sessions) OR merged_into = ANY(:sessions)
    ORDER BY id
""")
_DROP_MEMORIES = text("""
    WITH given AS MATERIALIZED (
        SELECT DISTINCT quotable(content) AS said FROM unnest(CAST(:texts AS text[])) AS content
    )
    SELECT id FROM memories CROSS JOIN LATERAL (
        SELECT quotable(question_of(type, content, metadata)) AS asked OFFSET 0) AS question
    WHERE id = ANY(ARRAY(SELECT memories_with(:chat, CAST(:items AS text[]), CAST(:texts AS text[]))))
        AND (source_session_id = ANY(:sessions)
            OR type = 'qa_turn' AND learned_in = :chat AND (metadata->'recalled' ?| CAST(:items AS text[])
                OR EXISTS (SELECT 1 FROM given WHERE quotes(asked, said))))
    ORDER BY id LIMIT :limit
""")
_DROP_RECALLING = text("""
    SELECT id FROM memories
    WHERE id = ANY(ARRAY(SELECT memories_with(NULL, CAST(:items AS text[]), '{}')))
        AND type = 'qa_turn' AND EXISTS (
            SELECT 1 FROM jsonb_array_elements_text(metadata->'recalled') AS item
            WHERE item IN (SELECT unnest(CAST(:items AS text[]))))
""")
_DROP = text("""
    WITH locked AS MATERIALIZED (SELECT id FROM memories WHERE id = ANY(:ids) ORDER BY id FOR UPDATE)
    DELETE FROM memories m USING locked WHERE m.id = locked.id RETURNING m.id
""")
_LONGEST = """
    SELECT m.content, {vector} FROM messages m {join} WHERE m.id = ANY(:ids)
    ORDER BY length(m.content) DESC, m.id LIMIT :limit
"""
_LONGEST_WITH_VECTOR = text(
    _LONGEST.format(
        vector="v.space_id, v.size, v.embedding",
        join="""LEFT JOIN LATERAL (SELECT space_id, vector_dims(embedding) AS size, embedding
        FROM message_vectors WHERE tenant_id = m.tenant_id AND message_id = m.id
        ORDER BY chunk_index LIMIT 1) v ON true""",
    )
)
_LONGEST_ALONE = text(
    _LONGEST.format(
        vector="NULL::integer AS space_id, NULL::integer AS size, NULL::text AS embedding", join=""
    )
)
_COUNT_TEXT = text("""
    SELECT (SELECT count(*) FROM conversation_sessions
            WHERE position(:content IN coalesce(summary_text, '') || search_text) > 0)
        + (SELECT count(*) FROM memories WHERE position(:content IN content) > 0)
        + (SELECT count(*) FROM rollups WHERE position(:content IN summary_text) > 0 OR position(
            :json IN concat_ws(' ', topic_tags, decisions, open_questions, action_items, entities)) > 0)
        + (SELECT count(*) FROM memory_evidence WHERE position(:content IN content) > 0)
        + (SELECT count(*) FROM pending_changes WHERE position(:content IN content) > 0)
        + (SELECT count(*) FROM query_log
            WHERE position(:content IN concat_ws(' ', query, answer)) > 0)
        + (SELECT count(*) FROM jobs WHERE position(:content IN last_error) > 0)
        + (SELECT count(*) FROM arrivals WHERE position(:content IN error) > 0)
        + (SELECT count(*) FROM refused_payloads WHERE position(:json IN payload || error) > 0)
        + (SELECT count(*) FROM llm_answers WHERE position(:content IN answer) + position(:json IN answer) > 0)
        + (SELECT count(*) FROM conversation_sessions WHERE position(:content IN failure_reason) > 0)
""")


def with_pointers(connection: Connection, session_ids: Sequence[int]) -> list[int]:
    """Return these sessions and the sessions merged into them: a context may have shown either."""
    return column(connection, _WITH_POINTERS, sessions=session_ids)


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
    """Delete up to `limit` memories made from sessions, or from contexts that showed these messages or sessions.

    Also of contexts whose question says what the `texts` say, and so on; return their ids. What was learned of
    messages has evidence instead.
    """
    values = {"sessions": session_ids, "items": items_of(message_ids, session_ids)}
    ids = column(connection, _DROP_MEMORIES, chat=chat_id, texts=texts, limit=limit, **values)
    return drop(connection, tenant_id, ids)


def drop_recalling(connection: Connection, tenant_id: str, memory_ids: Sequence[UUID]) -> list[UUID]:
    """Delete the questions and answers of contexts that showed these memories, and so on; return their ids."""
    return drop_recalling_items(connection, tenant_id, memory_items(memory_ids))


def drop_recalling_items(connection: Connection, tenant_id: str, items: Sequence[str]) -> list[UUID]:
    """Delete the questions and answers of contexts that showed these items of the query log, and so on."""
    return drop(connection, tenant_id, column(connection, _DROP_RECALLING, items=items)) if items else []


def drop(connection: Connection, tenant_id: str, memory_ids: Sequence[UUID]) -> list[UUID]:
    """Delete memories, their jobs, and memories made from contexts that showed them; return their ids."""
    if not memory_ids:
        return []
    gone = column(connection, _DROP, ids=memory_ids)
    jobs.drop(connection, tenant_id, FENCED_BY_CHANGE, [f"memory:{i}" for i in gone])
    return [*gone, *drop_recalling(connection, tenant_id, gone)]


def items_of(message_ids: Sequence[int], session_ids: Sequence[int]) -> list[str]:
    """Return messages and sessions as the query log and memories name them."""
    return [*(f"message:{i}" for i in message_ids), *(f"session:{i}" for i in session_ids)]


def memory_items(memory_ids: Sequence[UUID]) -> list[str]:
    """Return memories as the query log and other memories name them: a document's chunks are memories, too."""
    return [f"{kind}:{i}" for i in memory_ids for kind in ("memory", "document")]


def longest(connection: Connection, ids: Sequence[int], limit: int) -> Sequence[Row[Any]]:
    """Return the longest of these messages with their vectors, to search for after their deletion."""
    if not vectors.exist(connection):
        return run(connection, _LONGEST_ALONE, ids=ids, limit=limit).all()
    knowing_vectors(connection)
    return run(connection, _LONGEST_WITH_VECTOR, ids=ids, limit=limit).all()


def count_text(connection: Connection, content: str) -> int:
    """Count the rows of derived or waiting data that hold a text word for word."""
    return number(connection, _COUNT_TEXT, content=content, json=json.dumps(content)[1:-1])


def count_vector(
    connection: Connection,
    space_id: int,
    size: int,
    embedding: HalfVector,
    *,
    chat_id: str | None,
    until: datetime,
) -> int:
    """Count messages up to a time, in one chat or anywhere, and memories that have this very vector."""
    same = f"""space_id = {int(space_id)}
        AND embedding::halfvec({int(size)}) <=> CAST(:embedding AS halfvec({int(size)})) < 0.0001"""
    statement = text(f"""
        SELECT (SELECT count(*) FROM message_vectors WHERE {same} AND sent_at <= :until
                AND (CAST(:chat AS text) IS NULL OR chat_id = :chat))
            + (SELECT count(*) FROM memory_vectors WHERE {same})
    """)
    return number(connection, statement, embedding=embedding, chat=chat_id, until=until)
