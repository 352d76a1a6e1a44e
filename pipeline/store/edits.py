"""SQL of edits and deletions: of messages, and of all that was made of them."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, text

from pipeline.store import jobs, vectors
from pipeline.store.sessions import COLUMNS, as_session
from schemas.kinds import FENCED_BY_CHANGE
from schemas.sessions import Session

_SET_EDITED_AT = text("UPDATE messages SET edited_at = greatest(edited_at, :at) WHERE id = :id")
_DROP_PENDING = text("DELETE FROM pending_changes WHERE chat_id = :chat AND external_id = ANY(:externals)")
_UPDATE_MESSAGES = text(
    "UPDATE messages SET reply_to = NULL WHERE chat_id = :chat AND reply_to = ANY(:externals)"
)
_DROP_MESSAGE_VECTORS = text("DELETE FROM message_vectors WHERE message_id = ANY(:ids)")
_DROP_SESSION = text("DELETE FROM conversation_sessions WHERE id = :id")


def find(connection: Connection, chat_id: str, external_id: str, *, locked: bool = True) -> Row[Any] | None:
    """A message by its platform's id, `locked` or as it is now; `waiting`: it has no place in a session yet."""
    return connection.execute(
        text(f"""
            SELECT id, sender_id, session_key, content, token_count, sent_at, edited_at, length(tsv) AS lexemes,
                EXISTS (SELECT 1 FROM arrivals a WHERE a.tenant_id = m.tenant_id AND a.message_id = m.id) AS waiting
            FROM messages m WHERE chat_id = :chat AND external_id = :external
            {"FOR NO KEY UPDATE" if locked else ""}
        """),
        {"chat": chat_id, "external": external_id},
    ).one_or_none()


_READ = text("""
    SELECT id, session_key, sent_at, content FROM messages WHERE id = ANY(:ids) AND chat_id = :chat ORDER BY id
""")


def read(connection: Connection, chat_id: str, ids: Sequence[int]) -> Sequence[Row[Any]]:
    """Messages of a chat as they are now, not locked: rows of `(id, session_key, sent_at, content)`."""
    return connection.execute(_READ, {"chat": chat_id, "ids": list(ids)}).all()


_SET_CONTENT = text("""
    UPDATE messages SET content = :content, token_count = :tokens, edited_at = :at,
        revision = revision + 1
    WHERE id = :id RETURNING length(tsv)
""")


def set_content(
    connection: Connection, message_id: int, content: str, token_count: int, edited_at: datetime
) -> int:
    """Give a message its new text; how many distinct lexemes that has."""
    return int(
        connection.execute(
            _SET_CONTENT, {"id": message_id, "content": content, "tokens": token_count, "at": edited_at}
        ).scalar_one()
    )


def set_edited_at(connection: Connection, message_id: int, edited_at: datetime) -> None:
    """Note an edit that left the text as it was, unless a newer one has."""
    connection.execute(_SET_EDITED_AT, {"id": message_id, "at": edited_at})


_PUT_PENDING = text("""
    INSERT INTO pending_changes (tenant_id, chat_id, external_id, content, token_count, edited_at)
    VALUES (:tenant, :chat, :external, :content, :tokens, :at)
    ON CONFLICT (tenant_id, chat_id, external_id) DO UPDATE SET content = excluded.content,
        token_count = excluded.token_count, edited_at = excluded.edited_at, received_at = now()
    WHERE pending_changes.edited_at <= excluded.edited_at
""")


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
    connection.execute(
        _PUT_PENDING,
        {
            "tenant": tenant_id,
            "chat": chat_id,
            "external": external_id,
            "content": content,
            "tokens": token_count,
            "at": edited_at,
        },
    )


def drop_pending(connection: Connection, chat_id: str, external_ids: Sequence[str]) -> None:
    """Forget edits whose message is kept out or gone."""
    connection.execute(_DROP_PENDING, {"chat": chat_id, "externals": list(external_ids)})


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


def delete_messages(connection: Connection, chat_id: str, ids: Sequence[int]) -> list[Row[Any]]:
    """Delete messages of one chat with their vectors and arrivals; what remains to be set right after them.

    What answered them no longer names them.
    Rows of `(id, external_id, session_key, sent_at, content, lexemes, placed)`, in the order of their ids.
    """
    rows = connection.execute(_DELETE_MESSAGES, {"chat": chat_id, "ids": list(ids)}).all()
    connection.execute(_UPDATE_MESSAGES, {"chat": chat_id, "externals": [row.external_id for row in rows]})
    return sorted(rows, key=lambda row: row.id)


def sessions_at(
    connection: Connection, chat_id: str, places: Sequence[tuple[str, datetime]], *, locked: bool = True
) -> list[Session]:
    """The sessions of a chat that lie at these `(session key, time)`, `locked` or as they are now."""
    rows = connection.execute(
        text(f"""
            SELECT {COLUMNS} FROM conversation_sessions s
            WHERE chat_id = :chat AND status <> 'merged' AND EXISTS (
                SELECT 1 FROM unnest(CAST(:keys AS text[]), CAST(:times AS timestamptz[])) AS place (key, at)
                WHERE place.key = s.session_key AND place.at BETWEEN s.started_at AND s.ended_at)
            ORDER BY id {"FOR NO KEY UPDATE" if locked else ""}
        """),
        {"chat": chat_id, "keys": [key for key, _ in places], "times": [at for _, at in places]},
    )
    return [as_session(row) for row in rows]


_REVISE = text("""
    UPDATE conversation_sessions SET token_count = token_count + :tokens, revision = revision + 1,
        inner_revision = inner_revision + 1, status = 'open', failure_reason = NULL
    WHERE id = :id
""")


def revise(connection: Connection, session_id: int, tokens: int) -> None:
    """Note that a session's text has changed, by so many tokens; it is open until it is closed again."""
    connection.execute(_REVISE, {"id": session_id, "tokens": tokens})


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
    """Delete what was made of these sessions: summaries and vectors; how many summaries those were."""
    cleared = connection.execute(_CLEAR, {"ids": list(session_ids)}).scalar_one()
    vectors.drop_sessions(connection, session_ids)
    return int(cleared)


def drop_message_vectors(connection: Connection, ids: Sequence[int]) -> int:
    """Delete the vectors of messages; how many those were."""
    if not vectors.exist(connection):
        return 0
    return connection.execute(_DROP_MESSAGE_VECTORS, {"ids": list(ids)}).rowcount


def drop_session(connection: Connection, tenant_id: str, session_id: int) -> None:
    """Delete a session that nothing is left of, with its vectors, its memories and its work."""
    connection.execute(_DROP_SESSION, {"id": session_id})
    jobs.drop(connection, tenant_id, FENCED_BY_CHANGE, [f"session:{session_id}"])
