"""SQL of a tenant's way out and in: its rows as JSON, with addresses in the place of this database's own numbers."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from psycopg.types.json import Jsonb
from sqlalchemy import Connection, Row, text

from pipeline.store.connections.statements import column, run
from schemas.sessions import THREAD


def _session(number: str) -> str:
    """Return SQL of the address of a session by its number: its chat, its key and a time in it."""
    return f"""(SELECT jsonb_build_array(s.chat_id, s.session_key, s.started_at)
        FROM conversation_sessions s WHERE s.id = {number})"""


def _session_at(address: str) -> str:
    """Return SQL of a session's number by its address."""
    return f"""(SELECT s.id FROM conversation_sessions s
        WHERE s.chat_id = {address} ->> 0 AND s.session_key = {address} ->> 1 AND s.status <> 'merged'
            AND ({address} ->> 2)::timestamptz BETWEEN s.started_at AND s.ended_at LIMIT 1)"""


_HERE = "(CAST(:chat AS text) IS NULL OR t.chat_id = :chat)"
_LEARNED_HERE = "(CAST(:chat AS text) IS NULL OR t.learned_in = :chat OR :chat = ANY(t.also_in))"
_OF_MEMORY = (
    f"EXISTS (SELECT FROM memories m WHERE m.id = x.memory_id AND {_LEARNED_HERE.replace('t.', 'm.')})"
)
# of a chat alone: the people who are in it
_PERSON_HERE = """(CAST(:chat AS text) IS NULL OR EXISTS (
    SELECT FROM chat_members c JOIN user_senders o ON o.user_id = t.user_id
    WHERE c.chat_id = :chat AND c.sender_id IN (o.user_id, o.sender_id)))"""


@dataclass(frozen=True, kw_only=True)
class Part:
    """Rows of one table, how they are written and read."""

    table: str
    # SQL of rows `t`, of the position by which they are read in order, and of what is added to their columns
    rows: str = _HERE
    position: str = "t.chat_id"
    type: str = "text"
    more: str = "'{}'"
    # SQL that turns the JSON `r` of a row into one of this database
    here: str = "r"
    # SQL of what must be there already
    needs: str = "true"


_ROWS_OF_PAIRS = "jsonb_build_array({})::text"
_HAS_CHAT = "EXISTS (SELECT FROM chats c WHERE c.chat_id = n.chat_id)"
_HAS_MEMORY = "EXISTS (SELECT FROM memories m WHERE m.id = n.memory_id)"
PARTS = {
    "chats": Part(
        table="chats",
        rows="(CAST(:chat AS text) IS NULL OR t.chat_id = :chat OR t.moved_to = :chat)",
        # a chat before those that were moved into it
        position="(CASE WHEN t.moved_to IS NULL THEN '0' ELSE '1' END || t.chat_id)",
        # counted and found out anew
        here="""r - '{message_count,lexeme_count,settling_until,words_after}'::text[]
            || '{"message_count": 0, "lexeme_count": 0}'""",
    ),
    "users": Part(table="users", rows=_PERSON_HERE, position="t.user_id"),
    "user_senders": Part(
        table="user_senders",
        rows=_PERSON_HERE,
        position="t.sender_id",
        needs="EXISTS (SELECT FROM users u WHERE u.user_id = n.user_id)",
    ),
    "chat_members": Part(
        table="chat_members", position=_ROWS_OF_PAIRS.format("t.chat_id, t.sender_id"), needs=_HAS_CHAT
    ),
    "session_closes": Part(
        table="session_closes",
        position=_ROWS_OF_PAIRS.format("t.chat_id, t.session_key, t.closed_at"),
        here="r || '{\"seen\": false}'",
        needs=_HAS_CHAT,
    ),
    "edits": Part(
        table="""(SELECT chat_id, external_id, NULL AS sender_id, content, edited_at FROM messages
            WHERE edited_at IS NOT NULL
            UNION ALL SELECT chat_id, external_id, nullif(sender_id, ''), content, edited_at FROM pending_changes)""",
        position=_ROWS_OF_PAIRS.format("t.chat_id, t.external_id, t.sender_id"),
    ),
    "messages": Part(table="messages", position="t.id", type="bigint"),
    "sessions": Part(
        table="conversation_sessions",
        rows=f"{_HERE} AND t.status <> 'merged' AND (t.summary_text IS NOT NULL OR t.facts_model IS NOT NULL)",
        position="t.id",
        type="bigint",
    ),
    "memories": Part(
        table="memories",
        rows=_LEARNED_HERE,
        position="t.id",
        type="uuid",
        more=f"""jsonb_build_object(
            'session', {_session("t.session_id")}, 'source_session', {_session("t.source_session_id")},
            'messages', (SELECT jsonb_agg(
                    DISTINCT jsonb_build_array(e.chat_id, coalesce(m.external_id, ''), e.sender_id))
                FROM memory_evidence e LEFT JOIN messages m ON m.id = e.message_id WHERE e.memory_id = t.id),
            'recalled', (SELECT jsonb_agg(address) FROM jsonb_array_elements_text(t.metadata -> 'recalled') AS item
                CROSS JOIN LATERAL (SELECT split_part(item, ':', 1) AS kind,
                    CAST(substring(item FROM ':([0-9]+)$') AS bigint) AS number) AS of
                CROSS JOIN LATERAL (
                    SELECT jsonb_build_array('message', m.chat_id, m.external_id) AS address FROM messages m
                    WHERE of.kind = 'message' AND m.id = of.number
                    UNION ALL SELECT jsonb_build_array('session', s.chat_id, s.session_key, s.started_at)
                    FROM conversation_sessions s
                    WHERE of.kind = 'session' AND s.id = of.number OR of.kind = 'rollup' AND s.id = ANY(ARRAY(
                        SELECT unnest(w.session_ids) FROM rollups w WHERE w.id = of.number))
                    UNION ALL SELECT to_jsonb(item) WHERE of.kind IN ('memory', 'document')) AS addressed))""",
        here=f"""r || jsonb_build_object(
            'session_id', {_session_at("(r -> 'session')")},
            'source_session_id', {_session_at("(r -> 'source_session')")},
            'source_message_ids', '[]'::jsonb,
            'metadata', r -> 'metadata' || CASE WHEN jsonb_typeof(r -> 'recalled') IS DISTINCT FROM 'array' THEN '{{}}'
                ELSE jsonb_build_object('recalled', (SELECT coalesce(jsonb_agg(known), '[]')
                    FROM jsonb_array_elements(r -> 'recalled') AS item CROSS JOIN LATERAL (SELECT CASE
                        WHEN jsonb_typeof(item) = 'string' THEN item #>> '{{}}'
                        WHEN item ->> 0 = 'message' THEN (SELECT 'message:' || m.id FROM messages m
                            WHERE m.chat_id = item ->> 1 AND m.external_id = item ->> 2)
                        ELSE 'session:' || {_session_at("(item - 0)")} END AS known) AS here
                    WHERE known IS NOT NULL)) END)""",
        # one of a session needs it
        needs="(n.scope <> 'session' OR n.session_id IS NOT NULL)",
    ),
    "memory_supersessions": Part(
        table="memory_supersessions",
        rows=_OF_MEMORY.replace("x.", "t."),
        position="(t.memory_id || ' ' || t.superseded_by)",
        needs=f"{_HAS_MEMORY} AND EXISTS (SELECT FROM memories m WHERE m.id = n.superseded_by)",
    ),
    "memory_evidence": Part(
        table="memory_evidence",
        rows=_OF_MEMORY.replace("x.", "t."),
        position="(t.memory_id || ' ' || t.message_id)",
        more=f"""jsonb_build_object('session', {_session("t.session_id")},
            'message', (SELECT m.external_id FROM messages m WHERE m.id = t.message_id))""",
        # what retention has removed has no number that a message could have
        here=f"""r || jsonb_build_object('session_id', coalesce({_session_at("(r -> 'session')")}, 0),
            'message_id', coalesce((SELECT m.id FROM messages m
                WHERE m.chat_id = r ->> 'chat_id' AND m.external_id = r ->> 'message'),
                -abs((r ->> 'message_id')::bigint)))""",
        needs=_HAS_MEMORY,
    ),
    "memory_entities": Part(
        table="memory_entities",
        rows=_OF_MEMORY.replace("x.", "t."),
        position=_ROWS_OF_PAIRS.format("t.memory_id, t.user_id, t.entity, t.alias"),
        needs=_HAS_MEMORY,
    ),
}
"""In the order in which they are written, and may be read: each needs those before it."""
_MESSAGE = f"""jsonb_build_object('chat_id', t.chat_id, 'external_id', t.external_id, 'sender_id', t.sender_id,
    'sender_name', t.sender_name, 'role', t.role, 'content', t.content, 'sent_at', t.sent_at, 'position', t.position,
    'agent_id', t.agent_id, 'reply_to', t.reply_to, 'thread', t.thread, 'metadata', t.metadata,
    'session_key', CASE WHEN starts_with(t.session_key, '{THREAD}') THEN '' ELSE t.session_key END)"""


def rows(
    connection: Connection, name: str, chat_id: str | None, after: str | None, limit: int
) -> Sequence[Row[Any]]:
    """Return the next rows of a part, `(position, row)`, after a position, in order."""
    part = PARTS[name]
    row = (
        _MESSAGE
        if name == "messages"
        else f"to_jsonb(t) - '{{tenant_id,tsv}}'::text[] || ({part.more})::jsonb"
    )
    statement = f"""
        SELECT {part.position} AS position, {row} AS row FROM {part.table} t
        WHERE {part.rows} AND (CAST(:after AS {part.type}) IS NULL OR {part.position} > CAST(:after AS {part.type}))
        ORDER BY {part.position} LIMIT :limit
    """
    return run(connection, text(statement), chat=chat_id, after=after, limit=limit).all()


def put(connection: Connection, tenant_id: str, name: str, given: Sequence[dict[str, Any]]) -> list[Any]:
    """Insert rows of a part that are not there yet and have what they need; return their first columns."""
    part = PARTS[name]
    known = column(
        connection,
        "SELECT attname FROM pg_attribute WHERE attrelid = to_regclass(:table) AND attnum > 0 AND NOT attisdropped",
        table=part.table,
    )
    # an earlier or later version may have others
    written = {key for row in given for key in row} | {"tenant_id"}
    columns = ", ".join(name for name in known if name in written and name != "tsv")
    key = "id" if name == "memories" else columns.partition(",")[0]
    statement = f"""
        INSERT INTO {part.table} ({columns})
        SELECT {columns} FROM jsonb_populate_recordset(CAST(NULL AS {part.table}), (
            SELECT jsonb_agg({part.here} || jsonb_build_object('tenant_id', CAST(:tenant AS text)))
            FROM jsonb_array_elements(:rows) AS r)) AS n
        WHERE {part.needs} ON CONFLICT DO NOTHING RETURNING {key}
    """
    return column(connection, text(statement), tenant=tenant_id, rows=Jsonb(list(given)))


_SUMMARY = (
    *("summary_text", "topic_tags", "decisions", "open_questions", "action_items", "entities", "search_text"),
    *("summary_model", "summary_version", "summary_message_count", "summary_token_count", "summary_ended_at"),
    *("summary_created_at", "facts_model"),
)
_PUT_SESSIONS = text(f"""
    WITH n AS MATERIALIZED (
        SELECT * FROM jsonb_populate_recordset(CAST(NULL AS conversation_sessions), :rows)
    )
    UPDATE conversation_sessions s SET {", ".join(f"{name} = n.{name}" for name in _SUMMARY)},
        status = CASE WHEN n.status IN ('summarized', 'skipped') THEN n.status ELSE s.status END,
        summary_revision = CASE WHEN n.summary_revision = n.revision THEN s.revision END,
        facts_revision = CASE WHEN n.facts_revision = n.revision THEN s.revision END
    FROM n
    WHERE s.chat_id = n.chat_id AND s.session_key = n.session_key AND s.started_at = n.started_at
        AND s.ended_at = n.ended_at AND s.message_count = n.message_count AND s.status <> 'merged'
        AND s.summary_text IS NULL AND (n.summary_text IS NOT NULL OR s.facts_model IS NULL)
    RETURNING s.id
""")


def put_sessions(connection: Connection, given: Sequence[dict[str, Any]]) -> list[int]:
    """Give sessions without a summary theirs, and what they have been read for, where they have the same messages."""
    return column(connection, _PUT_SESSIONS, rows=Jsonb(list(given)))


def unplaced_chats(connection: Connection, limit: int) -> list[str]:
    """Return chats with messages that wait to be placed."""
    return column(
        connection,
        "SELECT DISTINCT chat_id FROM arrivals WHERE quarantined_at IS NULL ORDER BY chat_id LIMIT :limit",
        limit=limit,
    )
