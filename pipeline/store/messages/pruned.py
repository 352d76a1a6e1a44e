"""SQL that finds messages that were stored before and have been pruned since."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from sqlalchemy import Connection, text

from pipeline.store.connections.statements import arrays, column
from pipeline.store.messages.messages import waits

# Of messages that are not stored and would be pruned, those inside a session that has fewer messages than it counts.
# Sessions of a key do not overlap: the last one that begins before a message is its own.
_PRUNED = text(f"""
    WITH missing AS MATERIALIZED (
        SELECT external_id, session_key, sent_at
        FROM unnest(CAST(:externals AS text[]), CAST(:keys AS text[]), CAST(:times AS timestamptz[]))
            AS given (external_id, session_key, sent_at)
        WHERE (sent_at < now() - CAST(:age AS interval)
                OR CAST(:per_chat AS bigint) IS NOT NULL AND sent_at < (
                    SELECT m.sent_at FROM messages m WHERE m.chat_id = :chat
                    ORDER BY m.sent_at DESC OFFSET CAST(:per_chat AS bigint) - 1 LIMIT 1))
            AND NOT EXISTS (
                SELECT 1 FROM messages m WHERE m.chat_id = :chat AND m.external_id = given.external_id)
    ), inside AS MATERIALIZED (
        SELECT missing.external_id, own.* FROM missing CROSS JOIN LATERAL (
            SELECT s.id, s.session_key, s.started_at, s.ended_at, s.message_count FROM conversation_sessions s
            WHERE s.chat_id = :chat AND s.session_key = missing.session_key AND s.status <> 'merged'
                AND s.started_at <= missing.sent_at
            ORDER BY s.started_at DESC LIMIT 1) own
        WHERE own.ended_at >= missing.sent_at
    ), pruned AS (
        SELECT id FROM (SELECT DISTINCT id, session_key, started_at, ended_at, message_count FROM inside) s
        WHERE s.message_count > (
            SELECT count(*) FROM messages m
            WHERE m.chat_id = :chat AND m.session_key = s.session_key
                AND m.sent_at BETWEEN s.started_at AND s.ended_at AND NOT {waits("m")})
    )
    SELECT external_id FROM inside WHERE id IN (SELECT id FROM pruned)
""")


class Sent(NamedTuple):
    """A message being accepted."""

    external_id: str
    session_key: str
    sent_at: datetime


def pruned(
    connection: Connection,
    chat_id: str,
    sent: Sequence[Sent],
    *,
    age: timedelta | None,
    per_chat: int | None,
) -> set[str]:
    """Return the ids of those that are beyond a limit, and not stored though their session counts more messages."""
    values = {"chat": chat_id, "age": age, "per_chat": per_chat}
    return set(column(connection, _PRUNED, **arrays("externals keys times", sent), **values))
