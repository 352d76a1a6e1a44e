"""SQL of what was made of messages: memories, and those that were made of contexts which showed them."""

from collections.abc import Sequence

from sqlalchemy import Connection, text

from pipeline.store.querylog import quotes

_QUESTION = "left(m.content, (m.metadata->>'question_chars')::integer)"


def drop_memories(
    connection: Connection,
    tenant_id: str,
    *,
    chat_id: str,
    message_ids: Sequence[int],
    session_ids: Sequence[int],
    texts: Sequence[str],
) -> list[str]:
    """Delete the memories made of messages of a chat, or of sessions that hold them; their ids.

    With them go question and answer of contexts that showed any of these, or whose question says what the `texts`
    say, and so on.
    """
    return _drop(
        connection,
        tenant_id,
        f"""
            source_message_ids && CAST(:messages AS bigint[]) OR source_session_id IN (
                SELECT id FROM conversation_sessions WHERE id = ANY(:sessions) OR merged_into = ANY(:sessions))
            OR type = 'qa_turn' AND learned_in = :chat AND (
                metadata->'recalled' ?| CAST(:items AS text[])
                OR {quotes(_QUESTION, "CAST(:texts AS text[])")})
        """,
        chat=chat_id,
        messages=list(message_ids),
        sessions=list(session_ids),
        items=[*(f"message:{each}" for each in message_ids), *(f"session:{each}" for each in session_ids)],
        texts=list(texts),
    )


def drop_recalling(connection: Connection, tenant_id: str, memory_ids: Sequence[str]) -> list[str]:
    """Delete the questions and answers of contexts that showed these memories, and so on; their ids."""
    if not memory_ids:
        return []
    items = [f"{kind}:{each}" for each in memory_ids for kind in ("memory", "document")]
    return _drop(
        connection,
        tenant_id,
        "type = 'qa_turn' AND metadata->'recalled' ?| CAST(:items AS text[])",
        items=items,
    )


def _drop(connection: Connection, tenant_id: str, condition: str, **given: object) -> list[str]:
    """Delete the memories that fit, those that were made of contexts which showed them, and all their work."""
    gone = [
        str(each)
        for each in connection.scalars(
            text(f"""
                WITH RECURSIVE doomed (id) AS (
                    SELECT id FROM memories m WHERE {condition}
                    UNION
                    SELECT m.id FROM doomed d JOIN memories m ON m.type = 'qa_turn' AND m.metadata->'recalled' ?|
                        ARRAY['memory:' || d.id, 'document:' || d.id]
                )
                DELETE FROM memories WHERE id IN (SELECT id FROM doomed) RETURNING id
            """),
            given,
        )
    ]
    if gone:
        connection.execute(
            text("DELETE FROM work WHERE tenant_id = :tenant AND kind = 'embed' AND key = ANY(:keys)"),
            {"tenant": tenant_id, "keys": [f"memory:{each}" for each in gone]},
        )
    return gone
