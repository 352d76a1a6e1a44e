"""SQL of forgetting: its receipts, and the data of a user, a chat or a tenant to delete."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, text

from pipeline.store import llm_calls
from pipeline.store.chats.chats import ACCOUNTS
from pipeline.store.connections.statements import column, number, run
from pipeline.store.jobs import jobs
from pipeline.store.sessions import rollups
from schemas.kinds import BACKFILL, DIGEST, FENCED_BY_CHANGE, INGEST, LANGUAGE
from schemas.people import Receipt

_NAMES_OF = text("""
    SELECT sender_name FROM messages WHERE sender_id = ANY(:senders) AND sender_name <> ''
    UNION SELECT name FROM memory_entities WHERE user_id = ANY(:senders)
""")
_ALL_CHATS = text("SELECT chat_id FROM chats ORDER BY chat_id")
_CHATS_OF = text("SELECT DISTINCT chat_id FROM messages WHERE sender_id = ANY(:senders) ORDER BY chat_id")
# Sent or received by then: a sender's clock may run ahead of ours.
_UNTIL = "least(sent_at, received_at) <= :until"
_EXTERNAL_IDS = text("""
    SELECT external_id FROM messages WHERE id = ANY(:ids) AND (CAST(:after AS timestamptz) IS NULL
        OR sent_at > :after OR metadata ? 'original_sent_at')
""")
_DROP_PENDING_OF_CHAT = text("DELETE FROM pending_changes WHERE chat_id = :chat AND received_at <= :until")
_DROP_CHANGES_OF_CHAT = text("DELETE FROM member_changes WHERE chat_id = :chat AND at <= :until")
_DROP_PENDING_OF_SENDERS = text(
    "DELETE FROM pending_changes WHERE sender_id = ANY(:senders) AND received_at <= :until"
)
_UNNAME_MERGED = text("""
    UPDATE conversation_sessions SET participants = '{}'
    WHERE status = 'merged' AND participants && CAST(:names AS text[])
""")
_UNTITLE_DIRECT = text("UPDATE chats SET title = '' WHERE kind = 'direct' AND title = ANY(:names)")
# Memories that belong to a person, or did before they were promoted: one index for each of the three.
OF_PERSON = """(scope = 'user' AND user_id = ANY(:senders)
    OR scope = 'session' AND session_id IS NOT NULL AND user_id = ANY(:senders) OR promoted_from = ANY(:senders))"""
# Memories of a subject; with both null, of the tenant.
_MEMORIES = f"""
    created_at <= :until AND (CAST(:senders AS text[]) IS NULL OR {OF_PERSON})
        AND (CAST(:chat AS text) IS NULL OR learned_in = :chat)
"""
_DELETE_MEMORIES = text(f"""
    DELETE FROM memories WHERE id IN (SELECT id FROM memories WHERE {_MEMORIES} ORDER BY id LIMIT :limit)
    RETURNING id, scope, user_id, agent_id, promoted_from, content
""")
_OLD_SESSIONS = text("""
    SELECT id FROM conversation_sessions WHERE chat_id = :chat AND ended_at <= :until
    ORDER BY id LIMIT :limit
""")
_DELETE_CHAT = text("""
    DELETE FROM chats c WHERE chat_id = :chat AND NOT EXISTS (
        SELECT 1 FROM messages m WHERE m.tenant_id = c.tenant_id AND m.chat_id = c.chat_id)
""")
_DELETE_BACKFILLS = text("DELETE FROM backfills WHERE tenant_id = :tenant AND filter->>'chat_id' = :chat")
_EMPTY_TENANT = (
    # which account of ours came first stays: the ids of direct chats would change
    text(f"""
        UPDATE tenants SET settings = (SELECT coalesce(jsonb_object_agg(key, value), '{{}}')
            FROM jsonb_each(settings) WHERE starts_with(key, '{ACCOUNTS}')) WHERE tenant_id = :tenant
    """),
    text("DELETE FROM changed_numbers WHERE tenant_id = :tenant AND until <= :until"),
    text("DELETE FROM users WHERE tenant_id = :tenant AND created_at <= :until"),
    text("DELETE FROM backfills WHERE tenant_id = :tenant AND created_at <= :until"),
    text("DELETE FROM digests WHERE tenant_id = :tenant AND created_at <= :until"),
    text("DELETE FROM daily_counters WHERE tenant_id = :tenant"),
    text("DELETE FROM sources WHERE tenant_id = :tenant AND created_at <= :until AND chats IS NOT NULL"),
    text("UPDATE sources SET label = '' WHERE tenant_id = :tenant AND created_at <= :until"),
    text("DELETE FROM llm_calls WHERE tenant_id = :tenant AND called_at <= :until"),
    # a key limited to chats names them; other keys must still read the receipt, and only their label may name somebody
    text("DELETE FROM api_keys WHERE tenant_id = :tenant AND created_at <= :until AND chats IS NOT NULL"),
    text("UPDATE api_keys SET label = '' WHERE tenant_id = :tenant AND created_at <= :until"),
)
_PLAN = text(f"""
    WITH gone AS (
        SELECT chat_id FROM messages WHERE (CAST(:chat AS text) IS NULL OR chat_id = :chat)
            AND (CAST(:senders AS text[]) IS NULL OR sender_id = ANY(:senders))
            AND (CAST(:external AS text) IS NULL OR external_id = :external)
    )
    SELECT count(*) AS messages, count(DISTINCT chat_id) AS chats,
        (SELECT count(*) FROM memories m WHERE CAST(:external AS text) IS NULL
            AND (CAST(:senders AS text[]) IS NULL OR {OF_PERSON}
                OR id IN (SELECT e.memory_id FROM memory_evidence e WHERE e.sender_id = ANY(:senders))
                AND NOT EXISTS (SELECT 1 FROM memory_evidence e WHERE e.tenant_id = m.tenant_id
                    AND e.memory_id = m.id AND e.sender_id <> ALL(:senders)))
            AND (CAST(:chat AS text) IS NULL OR learned_in = :chat)) AS memories,
        (SELECT count(*) FROM query_log WHERE CAST(:external AS text) IS NULL
            AND (CAST(:senders AS text[]) IS NULL OR user_id = ANY(:senders))
            AND (CAST(:chat AS text) IS NULL OR chat_id = :chat)) AS queries
    FROM gone
""")
_INSERT = text("""
    INSERT INTO forget_receipts (tenant_id, kind, subject, subject_hash, until)
    VALUES (:tenant, :kind, :subject, :hash, :until) RETURNING id
""")
_RECEIPT = "id, kind, encode(subject_hash, 'hex') AS subject_hash, until, counts, created_at, finished_at"
_GET_RECEIPT = text(f"SELECT {_RECEIPT} FROM forget_receipts WHERE id = :id")
_LATEST = text(f"""
    SELECT {_RECEIPT} FROM forget_receipts WHERE kind = :kind AND subject_hash = :hash
    ORDER BY id DESC LIMIT 1
""")
_LIST_RECEIPTS = text(f"SELECT {_RECEIPT} FROM forget_receipts ORDER BY id DESC LIMIT :limit")
_RECEIPT_SUBJECT = text("SELECT subject FROM forget_receipts WHERE id = :id")
_ADD = text("""
    UPDATE forget_receipts SET
        counts = (SELECT coalesce(jsonb_object_agg(name, total), '{}') FROM (
            SELECT key AS name, sum(value::bigint) AS total FROM (
                SELECT * FROM jsonb_each_text(forget_receipts.counts)
                UNION ALL SELECT * FROM jsonb_each_text(:counts)) both_counts GROUP BY key) summed),
        subject = CASE WHEN :done THEN NULL ELSE subject END,
        finished_at = CASE WHEN :done THEN clock_timestamp() END
    WHERE id = :id
""")
_NAME = text("""
    UPDATE forget_receipts SET subject = subject || jsonb_build_object('names', CAST(:names AS text[]))
    WHERE id = :id AND subject IS NOT NULL
""")
_NAMES_OF_MESSAGES = text(
    "SELECT id, chat_id, external_id FROM messages WHERE id > :after ORDER BY id LIMIT :limit"
)


def names_of(connection: Connection, senders: Sequence[str]) -> list[str]:
    """Return the names that a person went by."""
    return sorted(column(connection, _NAMES_OF, senders=senders))


def chats_of(connection: Connection, senders: Sequence[str] | None) -> list[str]:
    """Return the chats that a person spoke in, or all."""
    return column(connection, _ALL_CHATS if senders is None else _CHATS_OF, senders=senders)


def messages_to_erase(
    connection: Connection,
    chat_id: str,
    until: datetime,
    *,
    senders: Sequence[str] | None,
    external_id: str | None,
) -> Sequence[Row[Any]]:
    """Return the messages of a chat to erase, in order of session: rows of `(id, chars)`."""
    which = {"external_id = :external": external_id, "sender_id = ANY(:senders)": senders}
    narrowed = " AND ".join(condition for condition, value in which.items() if value is not None)
    statement = text(f"""
        SELECT id, length(content) AS chars FROM messages
        WHERE chat_id = :chat AND {"true" if external_id else _UNTIL} AND {narrowed or "true"}
        ORDER BY session_key, sent_at, id
    """)
    return run(connection, statement, chat=chat_id, until=until, senders=senders, external=external_id).all()


def external_ids(connection: Connection, ids: Sequence[int], after: datetime | None) -> list[str]:
    """Return the platform's ids of these messages; with `after`, of those whose sender claimed a later time."""
    return column(connection, _EXTERNAL_IDS, ids=ids, after=after)


def drop_pending_of_chat(connection: Connection, chat_id: str, until: datetime) -> None:
    """Delete the edits that were pending in a chat at a time, and who had joined and left by then."""
    run(connection, _DROP_PENDING_OF_CHAT, chat=chat_id, until=until)
    run(connection, _DROP_CHANGES_OF_CHAT, chat=chat_id, until=until)


def drop_pending_of_senders(connection: Connection, senders: Sequence[str], until: datetime) -> None:
    """Delete the edits of these senders that were pending at a time, in any chat."""
    run(connection, _DROP_PENDING_OF_SENDERS, senders=senders, until=until)


def unname(connection: Connection, names: Sequence[str]) -> None:
    """Remove the participants of merged sessions, and the titles of direct chats, that name any of these people."""
    run(connection, _UNNAME_MERGED, names=names)
    run(connection, _UNTITLE_DIRECT, names=names)


def delete_memories(
    connection: Connection,
    tenant_id: str,
    until: datetime,
    *,
    senders: Sequence[str] | None,
    chat_id: str | None,
    limit: int,
) -> Sequence[Row[Any]]:
    """Delete up to `limit` memories of a person, a chat or all; return their fields for suppression hashes."""
    gone = run(connection, _DELETE_MEMORIES, until=until, senders=senders, chat=chat_id, limit=limit).all()
    jobs.drop(connection, tenant_id, FENCED_BY_CHANGE, [f"memory:{row.id}" for row in gone])
    return gone


def old_sessions(connection: Connection, chat_id: str, until: datetime, limit: int) -> list[int]:
    """Return sessions of a chat that ended by then, though their messages were pruned before."""
    return column(connection, _OLD_SESSIONS, chat=chat_id, until=until, limit=limit)


def delete_chat(connection: Connection, tenant_id: str, chat_id: str) -> int:
    """Delete a chat without messages, and what names it; return 0 if it has new messages."""
    gone = run(connection, _DELETE_CHAT, chat=chat_id).rowcount
    if gone:
        run(connection, _DELETE_BACKFILLS, tenant=tenant_id, chat=chat_id)
        llm_calls.forget_chat(connection, tenant_id, chat_id)
        rollups.drop_of_chat(connection, tenant_id, chat_id)
        jobs.drop(connection, tenant_id, [INGEST, LANGUAGE], [chat_id])
    return gone


def empty_tenant(connection: Connection, tenant_id: str, until: datetime) -> None:
    """Delete what belongs to the tenant but to none of its chats: settings, backfills, figures, calls, jobs."""
    for statement in _EMPTY_TENANT:
        run(connection, statement, tenant=tenant_id, until=until)
    for kind in (BACKFILL, DIGEST):
        jobs.drop_old(connection, tenant_id, kind, until)


def plan(
    connection: Connection, *, chat_id: str | None, senders: Sequence[str] | None, external_id: str | None
) -> Row[Any]:
    """Count the messages, chats, memories and queries that a forgetting would delete."""
    return run(connection, _PLAN, chat=chat_id, senders=senders, external=external_id).one()


def insert_receipt(
    connection: Connection,
    tenant_id: str,
    kind: str,
    subject: Mapping[str, Any],
    subject_hash: bytes,
    until: datetime,
) -> int:
    """Begin a receipt; return its id."""
    values = {"kind": kind, "subject": subject, "hash": subject_hash, "until": until}
    return number(connection, _INSERT, tenant=tenant_id, **values)


def _one(rows: Iterable[Row[Any]]) -> Receipt | None:
    return next((Receipt(**row._mapping) for row in rows), None)


def get_receipt(connection: Connection, receipt_id: int) -> Receipt | None:
    """Return a receipt, or None if the tenant has none of that id."""
    return _one(run(connection, _GET_RECEIPT, id=receipt_id))


def latest_receipt(connection: Connection, kind: str, subject_hash: bytes) -> Receipt | None:
    """Return the newest receipt of a kind for a subject."""
    return _one(run(connection, _LATEST, kind=kind, hash=subject_hash))


def list_receipts(connection: Connection, limit: int) -> list[Receipt]:
    """Return the newest receipts."""
    return [Receipt(**row._mapping) for row in run(connection, _LIST_RECEIPTS, limit=limit)]


def receipt_subject(connection: Connection, receipt_id: int) -> dict[str, Any] | None:
    """Return the subject of a receipt, unless it was cleared when the forgetting finished."""
    return next(iter(column(connection, _RECEIPT_SUBJECT, id=receipt_id)), None)


def add_counts(
    connection: Connection, receipt_id: int, counts: Mapping[str, int], *, done: bool = False
) -> None:
    """Add to a receipt's counts; with `done`, finish it and clear its subject."""
    run(connection, _ADD, id=receipt_id, counts=counts, done=done)


def keep_names(connection: Connection, receipt_id: int, names: Sequence[str]) -> None:
    """Add a person's names to a receipt's subject, unless that is cleared."""
    run(connection, _NAME, id=receipt_id, names=names)


def drop_receipt(connection: Connection, receipt_id: int) -> None:
    """Delete a receipt that nobody was given."""
    run(connection, "DELETE FROM forget_receipts WHERE id = :id", id=receipt_id)


def chat_ids(connection: Connection) -> list[str]:
    """Return the id of each chat."""
    return column(connection, "SELECT chat_id FROM chats WHERE moved_to IS NULL")


def names_of_messages(connection: Connection, at_once: int = 10_000) -> Iterator[tuple[str, str]]:
    """Yield `(chat, external id)` of each message."""
    after = 0
    while rows := run(connection, _NAMES_OF_MESSAGES, after=after, limit=at_once).all():
        yield from ((row.chat_id, row.external_id) for row in rows)
        after = rows[-1].id
