"""SQL of summaries: which sessions want one, storing it, and reading it for a context."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, Row
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.sql import bindparam

from pipeline.store.sql import text
from schemas.summaries import Summary


def wanting_rollup(connection: Connection, chat_id: str, messages: int, tokens: int) -> list[int]:
    """Open sessions that have grown by so many messages or tokens since they were last summarized."""
    rows = connection.execute(
        text("""
            SELECT id FROM conversation_sessions WHERE chat_id = :chat AND status = 'open'
                AND (message_count - coalesce(summary_message_count, 0) >= :messages
                    OR token_count - coalesce(summary_token_count, 0) >= :tokens)
            ORDER BY id
        """),
        {"chat": chat_id, "messages": messages, "tokens": tokens},
    )
    return [row[0] for row in rows]


_SAVE = text("""
    UPDATE conversation_sessions SET summary_text = :summary, topic_tags = :topics, decisions = :decisions,
        open_questions = :open_questions, action_items = :action_items, entities = :entities,
        search_text = :search_text, summary_model = :model, summary_version = :version,
        summary_revision = revision, summary_message_count = message_count, summary_token_count = token_count,
        summary_ended_at = ended_at, summary_created_at = now(), failure_reason = NULL,
        status = CASE WHEN status = 'open' THEN 'open' ELSE 'summarized' END
    WHERE id = :id AND revision = :revision AND status <> 'merged'
""").bindparams(
    *(
        bindparam(name, type_=JSONB)
        for name in ("topics", "decisions", "open_questions", "action_items", "entities")
    )
)


def save(
    connection: Connection, session_id: int, revision: int, summary: Summary, *, model: str, version: int
) -> bool:
    """Store what a session was about, unless it has changed since that revision; whether it was stored."""
    given = summary.model_dump() | {"search_text": summary.search_text(), "model": model, "version": version}
    return connection.execute(_SAVE, given | {"id": session_id, "revision": revision}).rowcount == 1


def mark(
    connection: Connection, session_id: int, revision: int, status: str, reason: str | None = None
) -> bool:
    """Set a closed session's status (`skipped`, `failed`) unless it has changed since that revision."""
    return (
        connection.execute(
            text("""
                UPDATE conversation_sessions SET status = :status, failure_reason = :reason
                WHERE id = :id AND revision = :revision AND status NOT IN ('open', 'merged')
            """),
            {"id": session_id, "revision": revision, "status": status, "reason": reason},
        ).rowcount
        == 1
    )


def cards(connection: Connection, session_ids: Sequence[int]) -> Sequence[Row[Any]]:
    """What is known of these sessions, for a context."""
    return connection.execute(
        text("""
            SELECT id, started_at, ended_at, summary_text, topic_tags, entities FROM conversation_sessions
            WHERE id = ANY(:ids) AND status <> 'merged'
        """),
        {"ids": list(session_ids)},
    ).all()
