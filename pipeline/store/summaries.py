"""SQL of summaries: which sessions want one, storing it, and reading it for a context."""

from collections.abc import Collection, Sequence
from typing import Any

from sqlalchemy import Connection, Row, text
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.sql import bindparam

from schemas.sessions import Summary

_WANTING_ROLLUP = text("""
    SELECT id, chat_id FROM conversation_sessions WHERE chat_id = ANY(:chats) AND status = 'open'
        AND (message_count - coalesce(summary_message_count, 0) >= :messages
            OR token_count - coalesce(summary_token_count, 0) >= :tokens)
    ORDER BY id
""")


def wanting_rollup(
    connection: Connection, chat_ids: Collection[str], messages: int, tokens: int
) -> dict[int, str]:
    """The chat of each open session that has grown by so many messages or tokens since it was last summarized."""
    rows = connection.execute(
        _WANTING_ROLLUP, {"chats": list(chat_ids), "messages": messages, "tokens": tokens}
    )
    return {row.id: row.chat_id for row in rows}


_SAVE = text("""
    UPDATE conversation_sessions SET summary_text = :summary, topic_tags = :topics, decisions = :decisions,
        open_questions = :open_questions, action_items = :action_items, entities = :entities,
        search_text = :search_text, summary_model = :model, summary_version = :version,
        summary_revision = :revision, summary_message_count = :message_count,
        summary_token_count = :token_count, summary_ended_at = :ended_at, summary_created_at = now(),
        failure_reason = CASE WHEN revision = :revision THEN NULL ELSE failure_reason END,
        status = CASE WHEN status = 'open' OR revision <> :revision THEN status ELSE 'summarized' END
    WHERE id = :id AND inner_revision = :inner_revision AND status <> 'merged'
""").bindparams(
    *(
        bindparam(name, type_=JSONB)
        for name in ("topics", "decisions", "open_questions", "action_items", "entities")
    )
)


def save(connection: Connection, read: Row[Any], summary: Summary, *, model: str, version: int) -> bool:
    """Store what a session was about, as it was `read`; whether it was stored.

    A session that has been given messages since keeps the summary of what was read, and wants another one. It is not
    stored when the session was joined or cut, or a text of it edited: it would speak of what is not there any more.
    """
    given = summary.model_dump() | {
        "search_text": summary.search_text(),
        "model": model,
        "version": version,
        "id": read.id,
        "revision": read.revision,
        "inner_revision": read.inner_revision,
        "message_count": read.message_count,
        "token_count": read.token_count,
        "ended_at": read.ended_at,
    }
    return connection.execute(_SAVE, given).rowcount == 1


_MARK = text("""
    UPDATE conversation_sessions SET status = :status, failure_reason = :reason
    WHERE id = :id AND revision = :revision AND status NOT IN ('open', 'merged')
""")


def mark(
    connection: Connection, session_id: int, revision: int, status: str, reason: str | None = None
) -> bool:
    """Set a closed session's status (`skipped`, `failed`) unless it has changed since that revision."""
    return (
        connection.execute(
            _MARK, {"id": session_id, "revision": revision, "status": status, "reason": reason}
        ).rowcount
        == 1
    )


_CARDS = text("""
    SELECT id, session_key, started_at, ended_at, message_count, summary_text, topic_tags, entities
    FROM conversation_sessions WHERE id = ANY(:ids) AND status <> 'merged'
""")


def cards(connection: Connection, session_ids: Sequence[int]) -> Sequence[Row[Any]]:
    """What is known of these sessions, for a context."""
    return connection.execute(_CARDS, {"ids": list(session_ids)}).all()


_OUTDATE = text("UPDATE conversation_sessions SET summary_revision = NULL WHERE id = ANY(:ids)")


def outdate(connection: Connection, session_ids: Sequence[int]) -> None:
    """Let the summaries of these sessions be made anew, though nothing has changed."""
    connection.execute(_OUTDATE, {"ids": list(session_ids)})
