"""SQL of the senders whose messages retention has pruned from sessions, which may still speak of them.

A session with all its messages names its senders by them. One that lacks messages without a record was pruned before
senders were recorded.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from sqlalchemy import Connection, text

from pipeline.store.connections.statements import arrays, column, run
from pipeline.store.messages.messages import waits
from pipeline.store.sessions.sessions import COLUMNS, IN_SESSIONS, as_session
from schemas.sessions import Session

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


def note(connection: Connection, message_ids: Sequence[int]) -> None:
    """Record the senders of placed messages in their sessions, before retention removes the messages."""
    run(connection, _NOTE, messages=message_ids)


def merge(connection: Connection, into: Mapping[int, int]) -> None:
    """Move the pruned senders of sessions `{loser: survivor}` to their survivors."""
    run(connection, _MERGE, **arrays("losers survivors", into.items()))
    clear(connection, list(into))


def clear(connection: Connection, session_ids: Sequence[int]) -> None:
    """Delete the pruned senders of sessions that no longer hold anything made from pruned messages."""
    run(connection, "DELETE FROM pruned_senders WHERE session_id = ANY(:sessions)", sessions=session_ids)


def chats_of(connection: Connection, person: PrunedPerson) -> list[str]:
    """Return the chats with sessions from which retention has removed a person's messages."""
    return column(connection, _CHATS_OF, **person._asdict())


def sessions_of(connection: Connection, chat_id: str, person: PrunedPerson, limit: int) -> list[Session]:
    """Lock and return sessions of a chat from which retention has removed a person's messages."""
    rows = run(connection, _SESSIONS_OF, chat=chat_id, limit=limit, **person._asdict())
    return [as_session(row) for row in rows]
