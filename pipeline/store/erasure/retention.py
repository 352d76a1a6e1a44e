"""SQL that finds and deletes what has expired, a bounded batch at a time, and notes whose messages are gone.

A session with all its messages names its senders by them. One that lacks messages without a record was pruned before
senders were recorded.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from sqlalchemy import Connection, text

from pipeline.store.connections.statements import arrays, column, number, run
from pipeline.store.messages.message_rows import waits
from pipeline.store.sessions.session_rows import COLUMNS, IN_SESSIONS, as_session
from schemas.kinds import EMBED, EXTRACT, SUMMARIZE
from schemas.sessions import Session

# Each statement finds at most :batch rows of one tenant; `WITH doomed AS (…)` serves counting and deleting.
HELD_DAYS = 7
"""Since it was received, a message waits for its session at most: some never end, and budgets are spent every day."""


def _may_go(message: str) -> str:
    """Return the condition that a message is placed, and its session is summarized and learned from.

    One that waits would come before all that may go. Sessions of a key do not overlap: the last one that begins before
    a message is its own. (Of jobs the latest time is asked for, as `EXISTS` would be planned as a hash of all jobs,
    made again for each message.)
    """
    return f"""NOT {waits(message)}
        AND NOT ({message}.received_at > now() - interval '{HELD_DAYS} days' AND EXISTS (
            SELECT 1 FROM (
                SELECT s.id, s.status, s.ended_at FROM conversation_sessions s
                WHERE s.tenant_id = {message}.tenant_id AND s.chat_id = {message}.chat_id
                    AND s.session_key = {message}.session_key AND s.status <> 'merged'
                    AND s.started_at <= {message}.sent_at
                ORDER BY s.started_at DESC LIMIT 1) own
            WHERE own.ended_at >= {message}.sent_at AND (own.status = 'open' OR (
                SELECT max(j.due_at) FROM jobs j
                WHERE j.tenant_id = {message}.tenant_id AND j.kind IN ('{SUMMARIZE}', '{EXTRACT}')
                    AND j.key = 'session:' || own.id) IS NOT NULL)))"""


# Chat by chat, as the index goes.
MESSAGES_BY_AGE = f"""
    SELECT m.id, m.chat_id FROM chats c CROSS JOIN LATERAL (
        SELECT id, chat_id FROM messages
        WHERE tenant_id = c.tenant_id AND chat_id = c.chat_id AND sent_at < :before AND {_may_go("messages")}
        ORDER BY sent_at LIMIT :batch) m
    LIMIT :batch
"""
# The newest message beyond those that are kept, then from the oldest on: what is held is rarely among them.
MESSAGES_BY_COUNT = f"""
    SELECT m.id, m.chat_id FROM chats c CROSS JOIN LATERAL (
        SELECT sent_at, id FROM messages
        WHERE tenant_id = c.tenant_id AND chat_id = c.chat_id AND NOT {waits("messages")}
        ORDER BY sent_at DESC, id DESC OFFSET :keep LIMIT 1) beyond
    CROSS JOIN LATERAL (
        SELECT id, chat_id FROM messages
        WHERE tenant_id = c.tenant_id AND chat_id = c.chat_id AND (sent_at, id) <= (beyond.sent_at, beyond.id)
            AND {_may_go("messages")}
        ORDER BY sent_at LIMIT :batch) m
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
# The half-life of a memory's usefulness while it is not shown, and the times that it was shown which count at most.
# These double it at most, so that what is asked for daily does not drive out what matters.
HALF_LIFE_DAYS, USES = 90, 15
USEFULNESS = f"""(1 + m.importance) * (1 + ln(1 + least(m.access_count, {USES})) / ln({USES + 1})) * power(0.5::float8,
    greatest(0, extract(epoch FROM now() - coalesce(m.last_accessed_at, m.created_at)) / 86400) / {HALF_LIFE_DAYS})"""
# History for everybody: known to be wrong, or superseded wherever it may be shown. What only some may see as superseded
# is what the others know.
_SUPERSEDED = """
    memory_supersessions e JOIN memories n ON n.tenant_id = e.tenant_id AND n.id = e.superseded_by
        AND coalesce(n.said_at, n.created_at) <= now()
"""
_EVERYWHERE = "(n.learned_in IS NULL OR m.learned_in || m.also_in <@ (n.learned_in || n.also_in))"
# By hand come last, history first, the oldest of it before what superseded that: nothing is believed again by pruning.
MEMORIES_OVER_USER_CAP = f"""
    WITH owned AS MATERIALIZED (
        SELECT m.id, coalesce(s.user_id, m.user_id) AS person
        FROM memories m LEFT JOIN user_senders s ON s.tenant_id = m.tenant_id AND s.sender_id = m.user_id
        WHERE m.scope = 'user' AND m.type <> 'document'
    ), crowded AS MATERIALIZED (
        SELECT person FROM owned GROUP BY person HAVING count(*) > :keep
    ), judged AS MATERIALIZED (
        SELECT m.id, owned.person, coalesce(m.said_at, m.created_at) AS since, {USEFULNESS} AS usefulness,
            m.type = 'manual' OR m.source = 'correction' OR m.edited_at IS NOT NULL AS by_hand,
            m.retracted_at IS NOT NULL OR EXISTS (
                SELECT 1 FROM {_SUPERSEDED}
                WHERE e.tenant_id = m.tenant_id AND e.memory_id = m.id AND {_EVERYWHERE}) AS is_history
        FROM owned JOIN crowded USING (person) JOIN memories m ON m.id = owned.id
    )
    SELECT id FROM (
        SELECT id, row_number() OVER (PARTITION BY person ORDER BY is_history, NOT is_history AND by_hand DESC,
            CASE WHEN is_history THEN since END DESC, usefulness DESC, id DESC) AS place
        FROM judged) ranked
    WHERE place > :keep ORDER BY place DESC LIMIT :batch
"""
MEMORIES_HISTORY = f"""
    SELECT id FROM (
        SELECT m.id, coalesce(m.said_at, m.created_at) AS since FROM memories m WHERE m.retracted_at < :before
        UNION
        SELECT m.id, coalesce(m.said_at, m.created_at) FROM {_SUPERSEDED}
        JOIN memories m ON m.tenant_id = e.tenant_id AND m.id = e.memory_id
        WHERE n.created_at < :before AND {_EVERYWHERE}) history
    ORDER BY since, id LIMIT :batch
"""
MEMORIES_UNUSED_ANSWERS = """
    SELECT id FROM memories WHERE type = 'qa_turn' AND coalesce(last_accessed_at, created_at) < :before
    ORDER BY id LIMIT :batch
"""
MERGED_SESSIONS = """
    SELECT id FROM conversation_sessions WHERE status = 'merged'
        AND coalesce(merged_at, created_at) < now() - interval '30 days'
    ORDER BY id LIMIT :batch
"""
# Closes with no message of their key before them no longer split anything. The others stay: a late message between two
# sessions must not join what an agent has closed.
SESSION_CLOSES = """
    SELECT tenant_id, chat_id, session_key, closed_at FROM session_closes c
    WHERE seen AND closed_at < now() - interval '30 days' AND NOT EXISTS (
        SELECT 1 FROM messages m WHERE m.tenant_id = c.tenant_id AND m.chat_id = c.chat_id
            AND m.session_key = c.session_key AND m.sent_at <= c.closed_at)
    ORDER BY chat_id, session_key, closed_at LIMIT :batch
"""
RECEIPTS = """
    SELECT tenant_id, id FROM forget_receipts WHERE finished_at < :before ORDER BY id LIMIT :batch
"""
BACKFILLS = """
    SELECT tenant_id, id FROM backfills WHERE finished_at < :before ORDER BY id LIMIT :batch
"""
COUNTERS = """
    SELECT tenant_id, day, name, slot FROM daily_counters
    WHERE day < CAST(:before AS timestamptz)::date ORDER BY day, name, slot LIMIT :batch
"""
# Slots of past days, to which nobody adds any more: only the sum counts.
COUNTERS_APART = """
    SELECT tenant_id, day, name, slot FROM daily_counters
    WHERE slot > 0 AND day < (now() AT TIME ZONE 'UTC')::date - 1 ORDER BY day, name, slot LIMIT :batch
"""
QUERY_LOG = """
    SELECT tenant_id, context_id FROM query_log WHERE asked_at < :before ORDER BY asked_at LIMIT :batch
"""
LLM_CALLS = """
    SELECT tenant_id, id FROM llm_calls WHERE called_at < :before ORDER BY called_at LIMIT :batch
"""
LLM_ANSWERS = """
    SELECT tenant_id, model, prompt_hash FROM llm_answers WHERE kept_at < :before ORDER BY kept_at LIMIT :batch
"""
PENDING_EDITS = """
    SELECT tenant_id, chat_id, external_id, sender_id FROM pending_changes WHERE received_at < :before
    ORDER BY chat_id, external_id, sender_id LIMIT :batch
"""
REFUSED_PAYLOADS = """
    SELECT tenant_id, key FROM refused_payloads WHERE refused_at < :before ORDER BY refused_at LIMIT :batch
"""
# The primary key of a table, where that is not `id`.
_KEYS = {
    "query_log": ("tenant_id", "context_id"),
    "llm_calls": ("tenant_id", "id"),
    "llm_answers": ("tenant_id", "model", "prompt_hash"),
    "pending_changes": ("tenant_id", "chat_id", "external_id", "sender_id"),
    "refused_payloads": ("tenant_id", "key"),
    "session_closes": ("tenant_id", "chat_id", "session_key", "closed_at"),
    "daily_counters": ("tenant_id", "day", "name", "slot"),
}
_LOCK_CHATS = text("SELECT 1 FROM chats WHERE chat_id = ANY(:chats) ORDER BY chat_id FOR NO KEY UPDATE")
_DELETE_MESSAGES = text(f"""
    WITH gone AS (
        DELETE FROM messages t WHERE t.id = ANY(:ids) AND {_may_go("t")}
        RETURNING t.tenant_id, t.chat_id, t.id, length(t.tsv) AS lexemes
    ), dropped_jobs AS (
        DELETE FROM jobs w USING gone
        WHERE w.tenant_id = gone.tenant_id AND w.kind = '{EMBED}' AND w.key = 'message:' || gone.id
    ), counted AS (
        UPDATE chats c SET message_count = message_count - g.messages,
            lexeme_count = lexeme_count - g.lexemes
        FROM (SELECT chat_id, count(*) AS messages, sum(lexemes) AS lexemes FROM gone GROUP BY chat_id) g
        WHERE c.chat_id = g.chat_id
    )
    SELECT count(*) FROM gone
""")


def count(connection: Connection, doomed: str, **values: object) -> int:
    """Count the rows that one of the statements finds, up to its batch."""
    return number(connection, text(f"SELECT count(*) FROM ({doomed}) doomed"), **values)


def delete(connection: Connection, table: str, doomed: str, **values: object) -> int:
    """Delete the rows that one of the statements finds; their vectors go with them."""
    same = " AND ".join(f"t.{name} = doomed.{name}" for name in _KEYS.get(table, ("id",)))
    statement = text(f"DELETE FROM {table} t USING ({doomed}) doomed WHERE {same}")
    return run(connection, statement, **values).rowcount


def fold_counters(connection: Connection, doomed: str, **values: object) -> int:
    """Add the figures that a statement finds to slot 0 of their day; return how many rows were deleted."""
    statement = text(f"""
        WITH gone AS (
            DELETE FROM daily_counters t USING ({doomed}) doomed
            WHERE t.tenant_id = doomed.tenant_id AND t.day = doomed.day AND t.name = doomed.name
                AND t.slot = doomed.slot
            RETURNING t.tenant_id, t.day, t.name, t.value
        ), folded AS (
            INSERT INTO daily_counters (tenant_id, day, name, slot, value)
            SELECT tenant_id, day, name, 0, sum(value) FROM gone GROUP BY tenant_id, day, name
            ON CONFLICT (tenant_id, day, name, slot) DO UPDATE SET value = daily_counters.value + excluded.value
        )
        SELECT count(*) FROM gone
    """)
    return number(connection, statement, **values)


def delete_messages(connection: Connection, doomed: str, **values: object) -> int:
    """Delete placed raw messages, and subtract them from their chats' counters.

    Sessions and summaries keep what they say about them, and revisions are not raised: the past has not changed. Their
    senders are recorded. Chats are locked before their messages, as everywhere.
    """
    rows = run(connection, text(doomed), **values).all()
    run(connection, _LOCK_CHATS, chats=sorted({row.chat_id for row in rows}))
    ids = [row.id for row in rows]
    note_pruned_senders(connection, ids)
    return number(connection, _DELETE_MESSAGES, ids=ids)


# Without `OFFSET 0` Postgres reads all pruned senders of the tenant instead.
_IS_NOTED = """EXISTS (
    SELECT 1 FROM pruned_senders noted WHERE noted.tenant_id = s.tenant_id AND noted.session_id = s.id OFFSET 0)"""
_PLACED = f"""(
    SELECT count(*) FROM messages m
    WHERE m.chat_id = s.chat_id AND m.session_key = s.session_key AND m.sent_at BETWEEN s.started_at AND s.ended_at
        AND NOT {waits("m")})"""
# A session that already lacks messages without a record gets none: these senders would seem to be all.
_NOTE = text(f"""
    WITH doomed AS MATERIALIZED (
        SELECT DISTINCT session.id, m.sender_id FROM {IN_SESSIONS} AND m.id = ANY(:messages)
    ), known AS MATERIALIZED (
        SELECT s.tenant_id, s.id FROM conversation_sessions s
        WHERE s.id = ANY(ARRAY(SELECT id FROM doomed)) AND ({_IS_NOTED} OR s.message_count = {_PLACED})
    )
    INSERT INTO pruned_senders (tenant_id, session_id, sender_id)
    SELECT known.tenant_id, known.id, doomed.sender_id FROM known JOIN doomed USING (id)
    ORDER BY doomed.sender_id, known.id ON CONFLICT DO NOTHING
""")
_MERGE = text("""
    INSERT INTO pruned_senders (tenant_id, session_id, sender_id)
    SELECT p.tenant_id, joined.survivor, p.sender_id
    FROM unnest(CAST(:losers AS bigint[]), CAST(:survivors AS bigint[])) AS joined (loser, survivor)
        JOIN pruned_senders p ON p.session_id = joined.loser
    ORDER BY p.sender_id, joined.survivor ON CONFLICT DO NOTHING
""")
_NOTED = "s.id IN (SELECT session_id FROM pruned_senders WHERE sender_id = ANY(:senders))"
# Pruned sessions without a record, in the person's chats: those that name the person, or all if nobody else is there.
_UNKNOWN = f"""
    s.chat_id = ANY(:chats) AND s.status <> 'merged'
        AND (s.participants && CAST(:names AS text[]) OR s.chat_id NOT IN (
            SELECT chat_id FROM chat_members WHERE chat_id = ANY(:chats) AND NOT sender_id = ANY(:senders)))
        AND NOT {_IS_NOTED} AND s.message_count <> {_PLACED}
"""
_CHATS_OF = text(f"""
    SELECT chat_id FROM conversation_sessions s WHERE {_NOTED}
    UNION SELECT chat_id FROM conversation_sessions s WHERE {_UNKNOWN} ORDER BY chat_id
""")
_SESSIONS_OF = text(f"""
    SELECT {COLUMNS} FROM conversation_sessions s WHERE chat_id = :chat AND ({_NOTED} OR {_UNKNOWN})
    ORDER BY id LIMIT :limit FOR NO KEY UPDATE
""")


class PrunedPerson(NamedTuple):
    """A person whose messages retention may have pruned from sessions."""

    senders: Sequence[str]
    # their names and their past and present chats, which identify sessions without a record
    names: Sequence[str]
    chats: Sequence[str]


def note_pruned_senders(connection: Connection, message_ids: Sequence[int]) -> None:
    """Record the senders of placed messages in their sessions, before retention removes the messages."""
    run(connection, _NOTE, messages=message_ids)


def merge_pruned_senders(connection: Connection, into: Mapping[int, int]) -> None:
    """Move the pruned senders of sessions `{loser: survivor}` to their survivors."""
    run(connection, _MERGE, **arrays("losers survivors", into.items()))
    clear_pruned_senders(connection, list(into))


def clear_pruned_senders(connection: Connection, session_ids: Sequence[int]) -> None:
    """Delete the pruned senders of sessions that no longer hold anything made from pruned messages."""
    run(connection, "DELETE FROM pruned_senders WHERE session_id = ANY(:sessions)", sessions=session_ids)


def chats_of_pruned(connection: Connection, person: PrunedPerson) -> list[str]:
    """Return the chats with sessions from which retention has removed a person's messages."""
    return column(connection, _CHATS_OF, **person._asdict())


def sessions_of_pruned(
    connection: Connection, chat_id: str, person: PrunedPerson, limit: int
) -> list[Session]:
    """Lock and return sessions of a chat from which retention has removed a person's messages."""
    rows = run(connection, _SESSIONS_OF, chat=chat_id, limit=limit, **person._asdict())
    return [as_session(row) for row in rows]
