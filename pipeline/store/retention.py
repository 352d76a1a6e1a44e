"""SQL that finds and deletes what has expired, a bounded batch at a time."""

from sqlalchemy import Connection, text

# Each statement finds at most :batch rows of one tenant; `WITH doomed AS (…)` serves counting and deleting.
MESSAGES_BY_AGE = """
    SELECT id FROM messages WHERE sent_at < :before ORDER BY sent_at LIMIT :batch
"""
MESSAGES_BY_COUNT = """
    SELECT m.id FROM chats c CROSS JOIN LATERAL (
        SELECT id FROM messages WHERE tenant_id = c.tenant_id AND chat_id = c.chat_id
        ORDER BY sent_at DESC, id DESC OFFSET :keep LIMIT :batch) m
    WHERE c.message_count > :keep LIMIT :batch
"""
MEMORIES_EXPIRED = """
    SELECT id FROM memories WHERE expires_at <= now() ORDER BY expires_at LIMIT :batch
"""
MEMORIES_OVER_SESSION_CAP = """
    SELECT id FROM (
        SELECT id, row_number() OVER (PARTITION BY session_id ORDER BY created_at DESC, id DESC) AS place
        FROM memories WHERE scope = 'session') ranked
    WHERE place > :keep LIMIT :batch
"""
MEMORIES_OVER_USER_CAP = """
    SELECT id FROM (
        SELECT m.id, row_number() OVER (PARTITION BY coalesce(s.user_id, m.user_id)
            ORDER BY m.importance DESC, coalesce(m.last_accessed_at, m.created_at) DESC, m.id DESC) AS place
        FROM memories m LEFT JOIN user_senders s ON s.tenant_id = m.tenant_id AND s.sender_id = m.user_id
        WHERE m.scope = 'user') ranked
    WHERE place > :keep LIMIT :batch
"""
MERGED_SESSIONS = """
    SELECT id FROM conversation_sessions s WHERE status = 'merged' AND created_at < now() - interval '30 days'
    ORDER BY id LIMIT :batch
"""
QUERY_LOG = """
    SELECT tenant_id, context_id FROM query_log WHERE asked_at < :before ORDER BY asked_at LIMIT :batch
"""
PENDING_EDITS = """
    SELECT tenant_id, chat_id, external_id FROM pending_changes WHERE received_at < :before
    ORDER BY chat_id, external_id LIMIT :batch
"""
# What a row is known by, where that is not its `id`.
_KEYS = {
    "query_log": ("tenant_id", "context_id"),
    "pending_changes": ("tenant_id", "chat_id", "external_id"),
}


def count(connection: Connection, doomed: str, **given: object) -> int:
    """How many rows one of the statements finds, up to its batch."""
    return int(connection.scalar(text(f"SELECT count(*) FROM ({doomed}) doomed"), given) or 0)


def delete(connection: Connection, table: str, doomed: str, **given: object) -> int:
    """Delete the rows that one of the statements finds; their vectors go with them."""
    same = " AND ".join(f"t.{name} = doomed.{name}" for name in _KEYS.get(table, ("id",)))
    statement = text(f"DELETE FROM {table} t USING ({doomed}) doomed WHERE {same}")
    return connection.execute(statement, given).rowcount


def delete_messages(connection: Connection, doomed: str, **given: object) -> int:
    """Delete raw messages, and take them out of their chats' counters.

    Sessions and summaries keep what they say of them, revisions are not raised: the past has not changed.
    Messages that are not yet placed are left for the next time.
    """
    return int(
        connection.scalar(
            text(f"""
                WITH gone AS (
                    DELETE FROM messages t USING ({doomed}) doomed
                    WHERE t.id = doomed.id AND NOT EXISTS (SELECT 1 FROM arrivals a
                        WHERE a.tenant_id = t.tenant_id AND a.message_id = t.id)
                    RETURNING t.tenant_id, t.chat_id, t.id, length(t.tsv) AS lexemes
                ), unowed AS (
                    DELETE FROM work w USING gone
                    WHERE w.tenant_id = gone.tenant_id AND w.kind = 'embed' AND w.key = 'message:' || gone.id
                ), counted AS (
                    UPDATE chats c SET message_count = message_count - g.messages,
                        lexeme_count = lexeme_count - g.lexemes
                    FROM (SELECT chat_id, count(*) AS messages, sum(lexemes) AS lexemes FROM gone GROUP BY chat_id) g
                    WHERE c.chat_id = g.chat_id
                )
                SELECT count(*) FROM gone
            """),
            given,
        )
        or 0
    )


def tenants(connection: Connection) -> list[str]:
    """Every tenant (maintenance)."""
    return [row[0] for row in connection.execute(text("SELECT tenant_id FROM tenants ORDER BY tenant_id"))]
