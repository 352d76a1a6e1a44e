"""SQL of edits and deletions: of messages, and of all that was made of them."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, text

from pipeline.store import jobs, vectors
from pipeline.store.sessions import COLUMNS, as_session
from pipeline.store.statements import arrays, number, run
from schemas.kinds import FENCED_BY_CHANGE
from schemas.sessions import Session

_SET_EDITED_AT = text("UPDATE messages SET edited_at = greatest(edited_at, :at) WHERE id = :id")
_DROP_PENDING = text("DELETE FROM pending_changes WHERE chat_id = :chat AND external_id = ANY(:externals)")
_DROP_MESSAGE_VECTORS = text("DELETE FROM message_vectors WHERE message_id = ANY(:ids)")
_DROP_SESSION = text("DELETE FROM conversation_sessions WHERE id = :id")


_FIND = text("""
    SELECT id, sender_id, session_key, content, token_count, sent_at, edited_at, length(tsv) AS lexemes,
        EXISTS (SELECT 1 FROM arrivals a WHERE a.tenant_id = m.tenant_id AND a.message_id = m.id) AS waiting
    FROM messages m WHERE chat_id = :chat AND external_id = :external
""")
_FIND_LOCKED = text(f"{_FIND.text} FOR NO KEY UPDATE")
_READ = text("""
    SELECT id, session_key, sent_at, content FROM messages WHERE id = ANY(:ids) AND chat_id = :chat ORDER BY id
""")
_SET_CONTENT = text("""
    UPDATE messages SET content = :content, token_count = :tokens, edited_at = :at,
        revision = revision + 1
    WHERE id = :id RETURNING length(tsv)
""")
_UNLINK_REPLIES = text(
    "UPDATE messages SET reply_to = NULL WHERE chat_id = :chat AND reply_to = ANY(:externals)"
)
_REVISE = text("""
    UPDATE conversation_sessions SET token_count = token_count + :tokens, revision = revision + 1,
        inner_revision = inner_revision + 1, status = 'open', failure_reason = NULL
    WHERE id = :id
""")
_PUT_PENDING = text("""
    INSERT INTO pending_changes (tenant_id, chat_id, external_id, content, token_count, edited_at)
    VALUES (:tenant, :chat, :external, :content, :tokens, :at)
    ON CONFLICT (tenant_id, chat_id, external_id) DO UPDATE SET content = excluded.content,
        token_count = excluded.token_count, edited_at = excluded.edited_at, received_at = now()
    WHERE pending_changes.edited_at <= excluded.edited_at
""")
_DELETE_MESSAGES = text("""
    WITH locked AS MATERIALIZED (
        SELECT id FROM messages WHERE chat_id = :chat AND id = ANY(:ids)
        ORDER BY external_id FOR UPDATE
    )
    DELETE FROM messages m USING locked WHERE m.id = locked.id
    RETURNING m.id, m.external_id, m.session_key, m.sent_at, m.content, length(m.tsv) AS lexemes,
        NOT EXISTS (SELECT 1 FROM arrivals a
            WHERE a.tenant_id = m.tenant_id AND a.message_id = m.id) AS placed
""")
_SESSIONS_AT = text(f"""
    SELECT {COLUMNS} FROM conversation_sessions s
    WHERE chat_id = :chat AND status <> 'merged' AND EXISTS (
        SELECT 1 FROM unnest(CAST(:keys AS text[]), CAST(:times AS timestamptz[])) AS place (key, at)
        WHERE place.key = s.session_key AND place.at BETWEEN s.started_at AND s.ended_at)
    ORDER BY id
""")
_LOCK_SESSIONS_AT = text(f"{_SESSIONS_AT.text} FOR NO KEY UPDATE")


def find(connection: Connection, chat_id: str, external_id: str, *, locked: bool = True) -> Row[Any] | None:
    """Find a message by its platform's id, `locked` or as it is now; `waiting`: it has no place in a session yet."""
    statement = _FIND_LOCKED if locked else _FIND
    return run(connection, statement, chat=chat_id, external=external_id).one_or_none()


def read(connection: Connection, chat_id: str, ids: Sequence[int]) -> Sequence[Row[Any]]:
    """Return messages of a chat as they are now, not locked: rows of `(id, session_key, sent_at, content)`."""
    return run(connection, _READ, chat=chat_id, ids=ids).all()


def set_content(
    connection: Connection, message_id: int, content: str, token_count: int, edited_at: datetime
) -> int:
    """Set a message's text; return how many distinct lexemes it has."""
    return number(connection, _SET_CONTENT, id=message_id, content=content, tokens=token_count, at=edited_at)


def set_edited_at(connection: Connection, message_id: int, edited_at: datetime) -> None:
    """Record an edit that left the text as it was, unless a newer one is recorded."""
    run(connection, _SET_EDITED_AT, id=message_id, at=edited_at)


def put_pending(
    connection: Connection,
    tenant_id: str,
    chat_id: str,
    external_id: str,
    content: str,
    token_count: int,
    edited_at: datetime,
) -> None:
    """Keep an edit until its message comes; of several the newest."""
    given = {"content": content, "tokens": token_count, "at": edited_at}
    run(connection, _PUT_PENDING, tenant=tenant_id, chat=chat_id, external=external_id, **given)


def drop_pending(connection: Connection, chat_id: str, external_ids: Sequence[str]) -> None:
    """Delete edits whose message is kept out or gone."""
    run(connection, _DROP_PENDING, chat=chat_id, externals=external_ids)


def delete_messages(connection: Connection, chat_id: str, ids: Sequence[int]) -> list[Row[Any]]:
    """Delete messages of one chat with their vectors and arrivals; what remains is set right by the caller.

    Messages that answered them no longer name them. Returns rows in the order of their ids.
    """
    rows = run(connection, _DELETE_MESSAGES, chat=chat_id, ids=ids).all()
    run(connection, _UNLINK_REPLIES, chat=chat_id, externals=[row.external_id for row in rows])
    return sorted(rows, key=lambda row: row.id)


def sessions_at(
    connection: Connection, chat_id: str, places: Sequence[tuple[str, datetime]], *, locked: bool = True
) -> list[Session]:
    """Return the sessions of a chat at these `(session key, time)`, `locked` or as they are now."""
    statement = _LOCK_SESSIONS_AT if locked else _SESSIONS_AT
    return [
        as_session(row) for row in run(connection, statement, chat=chat_id, **arrays("keys times", places))
    ]


def revise(connection: Connection, session_id: int, tokens: int) -> None:
    """Record that a session's text has changed by so many tokens; it is open until it is closed again."""
    run(connection, _REVISE, id=session_id, tokens=tokens)


_CLEAR = text("""
    WITH had AS (
        SELECT id, summary_text IS NOT NULL AS summary FROM conversation_sessions
        WHERE id = ANY(:ids) ORDER BY id FOR NO KEY UPDATE
    ), cleared AS (
        UPDATE conversation_sessions s SET summary_text = NULL, topic_tags = '[]', decisions = '[]',
            open_questions = '[]', action_items = '[]', entities = '[]', search_text = '',
            summary_model = NULL, summary_version = NULL, summary_revision = NULL,
            summary_message_count = NULL, summary_token_count = NULL, summary_ended_at = NULL,
            summary_created_at = NULL, failure_reason = NULL
        FROM had WHERE s.id = had.id
    )
    SELECT count(*) FILTER (WHERE summary) FROM had
""")


def clear(connection: Connection, session_ids: Sequence[int]) -> int:
    """Delete summaries and vectors of these sessions; return how many summaries there were."""
    cleared = number(connection, _CLEAR, ids=session_ids)
    vectors.drop_sessions(connection, session_ids)
    return cleared


def drop_message_vectors(connection: Connection, ids: Sequence[int]) -> int:
    """Delete the vectors of messages; return how many there were."""
    return run(connection, _DROP_MESSAGE_VECTORS, ids=ids).rowcount if vectors.exist(connection) else 0


def drop_session(connection: Connection, tenant_id: str, session_id: int) -> None:
    """Delete an empty session with its vectors, its memories and its jobs."""
    run(connection, _DROP_SESSION, id=session_id)
    jobs.drop(connection, tenant_id, FENCED_BY_CHANGE, [f"session:{session_id}"])
