"""SQL that changes stored messages: text, time, deletion, and the data derived from them."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

from psycopg.types.json import Jsonb
from sqlalchemy import Connection, Row, text

from pipeline.store import vectors
from pipeline.store.connections.statements import arrays, column, number, run
from pipeline.store.jobs import jobs
from pipeline.store.jobs.jobs import LATER
from pipeline.store.messages.message_rows import Arrival, arrival_columns, waits
from pipeline.store.sessions.session_rows import COLUMNS, as_session
from schemas.kinds import FENCED_BY_CHANGE
from schemas.messages import ORIGINAL_BYTES
from schemas.sessions import Session

_FIND = text(f"""
    SELECT id, sender_id, session_key, role, content, token_count, sent_at, edited_at, length(tsv) AS lexemes,
        {waits("m")} AS waiting
    FROM messages m WHERE chat_id = :chat AND external_id = :external
""")
_FIND_LOCKED = text(f"{_FIND.text} FOR NO KEY UPDATE")
_READ = text("""
    SELECT id, session_key, sent_at, content FROM messages WHERE id = ANY(:ids) AND chat_id = :chat ORDER BY id
""")


def sized(metadata: str, original_bytes: str) -> str:
    """Return SQL of a message's metadata with the size of its text before it was cut, or (null) without one."""
    size = f"jsonb_strip_nulls(jsonb_build_object('{ORIGINAL_BYTES}', {original_bytes}))"
    return f"({metadata} - '{ORIGINAL_BYTES}' || {size})"


_SET_CONTENT = text(f"""
    UPDATE messages SET content = :content, token_count = :tokens, edited_at = :at,
        revision = revision + 1, metadata = {sized("metadata", "CAST(:original_bytes AS bigint)")}
    WHERE id = :id RETURNING length(tsv)
""")
_SET_EDITED_AT = text("UPDATE messages SET edited_at = greatest(edited_at, :at) WHERE id = :id")
_NEWEST = """
    ON CONFLICT (tenant_id, chat_id, external_id, sender_id) DO UPDATE SET content = excluded.content,
        token_count = excluded.token_count, edited_at = excluded.edited_at, received_at = now(),
        original_bytes = excluded.original_bytes
    WHERE pending_changes.edited_at <= excluded.edited_at
"""
_PUT_PENDING = text(f"""
    INSERT INTO pending_changes (tenant_id, chat_id, external_id, sender_id, content, token_count, edited_at,
        original_bytes)
    VALUES (:tenant, :chat, :external, :sender, :content, :tokens, :at, :original_bytes)
    {_NEWEST}
""")
# A number that somebody else has now may lead to another chat.
_PUT_ALL_PENDING = text(f"""
    WITH given AS MATERIALIZED (
        SELECT g.*, m.id FROM jsonb_to_recordset(:edits) AS g (place integer, chat_id text, external_id text,
            sender_id text, content text, token_count integer, edited_at timestamptz)
        JOIN chats c ON c.chat_id = g.chat_id AND c.moved_to IS NULL
        LEFT JOIN messages m ON m.chat_id = g.chat_id AND m.external_id = g.external_id
        WHERE m.id IS NULL AND NOT EXISTS (SELECT FROM changed_numbers)
            OR m.content = g.content AND m.edited_at >= g.edited_at AND g.sender_id = ''
    ), kept AS (
        INSERT INTO pending_changes (tenant_id, chat_id, external_id, sender_id, content, token_count, edited_at)
        SELECT DISTINCT ON (chat_id, external_id, sender_id)
            :tenant, chat_id, external_id, sender_id, content, token_count, edited_at
        FROM given WHERE id IS NULL ORDER BY chat_id, external_id, sender_id, edited_at DESC, place DESC
        {_NEWEST}
    )
    SELECT place FROM given
""")
_DROP_PENDING = text("DELETE FROM pending_changes WHERE chat_id = :chat AND external_id = ANY(:externals)")
_DELETE_MESSAGES = text(f"""
    WITH locked AS MATERIALIZED (
        SELECT id FROM messages WHERE chat_id = :chat AND id = ANY(:ids)
        ORDER BY external_id FOR UPDATE
    )
    DELETE FROM messages m USING locked WHERE m.id = locked.id
    RETURNING m.id, m.external_id, m.session_key, m.sent_at, m.content, length(m.tsv) AS lexemes,
        NOT {waits("m")} AS placed
""")
_UNLINK_REPLIES = text(
    "UPDATE messages SET reply_to = NULL WHERE chat_id = :chat AND reply_to = ANY(:externals)"
)
_SESSIONS_AT = text(f"""
    SELECT {COLUMNS} FROM conversation_sessions s
    WHERE chat_id = :chat AND status <> 'merged' AND EXISTS (
        SELECT 1 FROM unnest(CAST(:keys AS text[]), CAST(:times AS timestamptz[])) AS place (key, at)
        WHERE place.key = s.session_key AND place.at BETWEEN s.started_at AND s.ended_at)
    ORDER BY id
""")
_LOCK_SESSIONS_AT = text(f"{_SESSIONS_AT.text} FOR NO KEY UPDATE")
_REVISE = text("""
    UPDATE conversation_sessions SET token_count = token_count + :tokens, revision = revision + 1,
        inner_revision = inner_revision + 1, status = 'open', failure_reason = NULL
    WHERE id = :id
""")
_CLEAR = text("""
    WITH had AS (
        SELECT id, summary_text IS NOT NULL AS summary FROM conversation_sessions
        WHERE id = ANY(:ids) ORDER BY id FOR NO KEY UPDATE
    ), cleared AS (
        UPDATE conversation_sessions s SET summary_text = NULL, topic_tags = '[]', decisions = '[]',
            open_questions = '[]', action_items = '[]', entities = '[]', search_text = '',
            summary_model = NULL, summary_version = NULL, summary_revision = NULL,
            summary_message_count = NULL, summary_token_count = NULL, summary_ended_at = NULL,
            summary_created_at = NULL, failure_reason = NULL, facts_revision = NULL
        FROM had WHERE s.id = had.id
    )
    SELECT count(*) FILTER (WHERE summary) FROM had
""")
_DROP_MESSAGE_VECTORS = text("DELETE FROM message_vectors WHERE chat_id = :chat AND message_id = ANY(:ids)")
_STORED_MESSAGES = text("""
    SELECT id, external_id, sent_at, metadata ->> 'original_sent_at' AS told FROM messages
    WHERE chat_id = :chat AND external_id = ANY(:externals)
""")
_LOCK_MESSAGES = text(f"""
    SELECT id, session_key, sent_at, length(tsv) AS lexemes, NOT {waits("m")} AS placed
    FROM messages m WHERE chat_id = :chat AND id = ANY(:ids) ORDER BY external_id FOR UPDATE
""")
# As in accepting, a time in the future is stored as that of the arrival.
_REDATE = text("""
    UPDATE messages m SET external_id = moved.external_id, position = moved.position,
        sent_at = CASE WHEN moved.sent_at > now() + interval '5 minutes' THEN now() ELSE moved.sent_at END,
        metadata = m.metadata - 'original_sent_at'
            || CASE WHEN moved.sent_at > now() + interval '5 minutes'
                THEN jsonb_build_object('original_sent_at', moved.sent_at) ELSE '{}' END
    FROM jsonb_to_recordset(:moved) AS moved (id bigint, external_id text, position integer, sent_at timestamptz)
    WHERE m.chat_id = :chat AND m.id = moved.id AND NOT EXISTS (
        SELECT 1 FROM messages o WHERE o.chat_id = :chat AND o.external_id = moved.external_id AND o.id <> moved.id)
""")
_DATE_VECTORS = text("""
    UPDATE message_vectors v SET sent_at = m.sent_at FROM messages m
    WHERE m.id = ANY(:ids) AND m.chat_id = :chat AND v.tenant_id = m.tenant_id AND v.message_id = m.id
""")
_ARRIVE = text("""
    INSERT INTO arrivals (tenant_id, chat_id, message_id, priority)
    SELECT :tenant, :chat, id, :priority FROM unnest(CAST(:ids AS bigint[])) AS id
""")
_ARRIVED = text(f"""
    SELECT {arrival_columns("CAST(:priority AS smallint)")}
    FROM messages m WHERE chat_id = :chat AND id = ANY(:ids) ORDER BY sent_at
""")
_SET_ASIDE = text("UPDATE conversation_sessions SET status = 'merged', merged_into = id WHERE id = ANY(:ids)")
_DROP_CLOSES = text("""
    DELETE FROM session_closes c USING unnest(CAST(:keys AS text[]), CAST(:times AS timestamptz[]))
        AS gone (key, at)
    WHERE c.chat_id = :chat AND c.session_key = gone.key AND c.closed_at = gone.at
""")


def find(connection: Connection, chat_id: str, external_id: str, *, locked: bool = True) -> Row[Any] | None:
    """Find a message by its platform's id, `locked` or not; `waiting` tells that it is not placed yet."""
    statement = _FIND_LOCKED if locked else _FIND
    return run(connection, statement, chat=chat_id, external=external_id).one_or_none()


def read(connection: Connection, chat_id: str, ids: Sequence[int]) -> Sequence[Row[Any]]:
    """Return messages of a chat as they are now, not locked: rows of `(id, session_key, sent_at, content)`."""
    return run(connection, _READ, chat=chat_id, ids=ids).all()


def set_content(connection: Connection, message_id: int, **values: object) -> int:
    """Set `content`, `tokens`, `at` and `original_bytes` (before it was cut, or None); return its distinct lexemes."""
    return number(connection, _SET_CONTENT, id=message_id, **values)


def set_edited_at(connection: Connection, message_id: int, edited_at: datetime) -> None:
    """Record an edit that left the text as it was, unless a newer one is recorded."""
    run(connection, _SET_EDITED_AT, id=message_id, at=edited_at)


def put_pending(
    connection: Connection, tenant_id: str, chat_id: str, external_id: str, **values: Any
) -> None:
    """Keep an edit by `sender` (empty: whoever sent the message), of the values of `set_content`, until its message
    arrives; of several by one sender only the newest."""
    run(connection, _PUT_PENDING, tenant=tenant_id, chat=chat_id, external=external_id, **values)


def put_all_pending(connection: Connection, tenant_id: str, edits: Sequence[dict[str, Any]]) -> set[int]:
    """Keep edits as `put_pending` does; return the `place` of each that is kept, or made already.

    Left are those of a message that is there otherwise, and of a chat that is not, or has another id now.
    """
    return set(column(connection, _PUT_ALL_PENDING, tenant=tenant_id, edits=Jsonb(list(edits))))


def drop_pending(connection: Connection, chat_id: str, external_ids: Sequence[str]) -> None:
    """Delete edits whose message is suppressed or deleted."""
    run(connection, _DROP_PENDING, chat=chat_id, externals=external_ids)


def delete_messages(connection: Connection, chat_id: str, ids: Sequence[int]) -> list[Row[Any]]:
    """Delete messages of one chat with their vectors and arrivals; the caller corrects the rest.

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
    """Record that a session's text has changed by a number of tokens; it is open until it is closed again."""
    run(connection, _REVISE, id=session_id, tokens=tokens)


def clear(connection: Connection, session_ids: Sequence[int]) -> int:
    """Delete summaries and vectors of these sessions; return how many summaries there were."""
    cleared = number(connection, _CLEAR, ids=session_ids)
    vectors.drop_sessions(connection, session_ids)
    return cleared


def drop_message_vectors(connection: Connection, chat_id: str, ids: Sequence[int]) -> int:
    """Delete the vectors of messages of a chat; return how many there were."""
    if not vectors.exist(connection):
        return 0
    return run(connection, _DROP_MESSAGE_VECTORS, chat=chat_id, ids=ids).rowcount


def drop_session(connection: Connection, tenant_id: str, session_id: int) -> None:
    """Delete an empty session with its vectors, its memories and its jobs."""
    run(connection, "DELETE FROM conversation_sessions WHERE id = :id", id=session_id)
    jobs.drop(connection, tenant_id, FENCED_BY_CHANGE, [f"session:{session_id}"])


class StoredMessage(NamedTuple):
    """A stored message, to compare with one imported again."""

    id: int
    external_id: str
    # by its sender's clock, even if the time of arrival is stored instead
    sent_at: datetime


class LockedMessage(NamedTuple):
    id: int
    session_key: str
    sent_at: datetime
    lexemes: int
    # it has its place in a session
    placed: bool


def stored_messages(
    connection: Connection, chat_id: str, external_ids: Sequence[str]
) -> dict[str, StoredMessage]:
    """Return the stored messages of a chat with these ids, as they are now."""
    rows = run(connection, _STORED_MESSAGES, chat=chat_id, externals=external_ids)
    stored = (StoredMessage(row.id, row.external_id, _original_time(row.told) or row.sent_at) for row in rows)
    return {message.external_id: message for message in stored}


def _original_time(original: str | None) -> datetime | None:
    """Parse a time that accepting has put into a message's metadata; None for anything else."""
    try:
        at = datetime.fromisoformat(original or "")
    except ValueError:
        return None
    return at if at.tzinfo else None


def lock_messages(connection: Connection, chat_id: str, ids: Sequence[int]) -> list[LockedMessage]:
    """Lock and return these messages of a chat."""
    return [LockedMessage(**row._mapping) for row in run(connection, _LOCK_MESSAGES, chat=chat_id, ids=ids)]


def redate(connection: Connection, chat_id: str, moved: Sequence[tuple[int, str, int, datetime]]) -> None:
    """Give messages of a chat `(id, external id, position, time)`, unless another has that external id by now."""
    names = ("id", "external_id", "position", "sent_at")
    rows = [dict(zip(names, (*row, at.isoformat()), strict=True)) for *row, at in moved]
    run(connection, _REDATE, chat=chat_id, moved=Jsonb(rows))
    if vectors.exist(connection):
        run(connection, _DATE_VECTORS, chat=chat_id, ids=[i for i, *_ in moved])


def arrive_anew(connection: Connection, tenant_id: str, chat_id: str, ids: Sequence[int]) -> list[Arrival]:
    """Turn placed messages back into arrivals; return them by their times."""
    run(connection, _ARRIVE, tenant=tenant_id, chat=chat_id, priority=LATER, ids=ids)
    return [Arrival(*row) for row in run(connection, _ARRIVED, chat=chat_id, priority=LATER, ids=ids)]


def set_aside(connection: Connection, session_ids: Sequence[int]) -> None:
    """Mark empty sessions as merged into themselves, until their survivors are known."""
    run(connection, _SET_ASIDE, ids=session_ids)


def drop_closes(connection: Connection, chat_id: str, closes: Sequence[tuple[str, datetime]]) -> None:
    """Delete the markers `(session key, time)` that messages had set at their former times."""
    run(connection, _DROP_CLOSES, chat=chat_id, **arrays("keys times", closes))
