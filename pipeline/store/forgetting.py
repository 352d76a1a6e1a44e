"""SQL of forgetting: receipts, and what belongs to a user, a chat or a tenant."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, text
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.sql import bindparam

from pipeline.store import vectors
from pipeline.store.sessions import COLUMNS, as_session
from schemas.forgetting import Receipt
from schemas.sessions import Session

_RECEIPT = "id, kind, encode(subject_hash, 'hex') AS subject_hash, until, counts, created_at, finished_at"

# What was sent or came until then: a sender's clock may run ahead of ours.
_UNTIL = "least(sent_at, received_at) <= :until"


def clock(connection: Connection) -> datetime:
    """The database's clock now, also after a long wait for a lock."""
    now: datetime = connection.execute(text("SELECT clock_timestamp()")).scalar_one()
    return now


def insert(
    connection: Connection,
    tenant_id: str,
    kind: str,
    subject: Mapping[str, Any],
    subject_hash: bytes,
    until: datetime,
) -> int:
    """Begin a receipt; its id."""
    return int(
        connection.execute(
            text("""
                INSERT INTO forget_receipts (tenant_id, kind, subject, subject_hash, until)
                VALUES (:tenant, :kind, :subject, :hash, :until) RETURNING id
            """).bindparams(bindparam("subject", type_=JSONB)),
            {
                "tenant": tenant_id,
                "kind": kind,
                "subject": dict(subject),
                "hash": subject_hash,
                "until": until,
            },
        ).scalar_one()
    )


def get(connection: Connection, receipt_id: int) -> Receipt | None:
    """A receipt, or None when the tenant has none of that id."""
    row = connection.execute(
        text(f"SELECT {_RECEIPT} FROM forget_receipts WHERE id = :id"), {"id": receipt_id}
    ).one_or_none()
    return Receipt(**row._mapping) if row else None


def listing(connection: Connection, limit: int) -> list[Receipt]:
    """The newest receipts."""
    rows = connection.execute(
        text(f"SELECT {_RECEIPT} FROM forget_receipts ORDER BY id DESC LIMIT :limit"), {"limit": limit}
    )
    return [Receipt(**row._mapping) for row in rows]


def subject(connection: Connection, receipt_id: int) -> dict[str, Any] | None:
    """What a receipt is about, as long as it is not forgotten."""
    found: dict[str, Any] | None = connection.scalar(
        text("SELECT subject FROM forget_receipts WHERE id = :id"), {"id": receipt_id}
    )
    return found


def add(connection: Connection, receipt_id: int, counts: Mapping[str, int], *, done: bool = False) -> None:
    """Add to a receipt's counts; with `done` it forgets whom it was about."""
    connection.execute(
        text("""
            UPDATE forget_receipts SET
                counts = (SELECT coalesce(jsonb_object_agg(name, total), '{}') FROM (
                    SELECT key AS name, sum(value::bigint) AS total FROM (
                        SELECT * FROM jsonb_each_text(forget_receipts.counts)
                        UNION ALL SELECT * FROM jsonb_each_text(:counts)) both_counts GROUP BY key) summed),
                subject = CASE WHEN :done THEN NULL ELSE subject END,
                finished_at = CASE WHEN :done THEN clock_timestamp() END
            WHERE id = :id
        """).bindparams(bindparam("counts", type_=JSONB)),
        {"id": receipt_id, "counts": dict(counts), "done": done},
    )


def names_of(connection: Connection, senders: Sequence[str]) -> list[str]:
    """The names that a person went by."""
    return sorted(
        connection.scalars(
            text("""
                SELECT DISTINCT sender_name FROM messages WHERE sender_id = ANY(:senders) AND sender_name <> ''
            """),
            {"senders": list(senders)},
        )
    )


def chats_of(connection: Connection, senders: Sequence[str] | None) -> list[str]:
    """The chats that a person spoke in, or all."""
    statement = (
        "SELECT chat_id FROM chats ORDER BY chat_id"
        if senders is None
        else "SELECT DISTINCT chat_id FROM messages WHERE sender_id = ANY(:senders) ORDER BY chat_id"
    )
    return list(connection.scalars(text(statement), {"senders": senders}))


def doomed(
    connection: Connection,
    chat_id: str,
    until: datetime,
    *,
    senders: Sequence[str] | None,
    external_id: str | None,
) -> list[int]:
    """The ids of a chat's messages that are to go, those of one session together."""
    return list(
        connection.scalars(
            text(f"""
                SELECT id FROM messages WHERE chat_id = :chat
                    AND (CAST(:external AS text) IS NOT NULL OR {_UNTIL})
                    AND (CAST(:senders AS text[]) IS NULL OR sender_id = ANY(:senders))
                    AND (CAST(:external AS text) IS NULL OR external_id = :external)
                ORDER BY session_key, sent_at, id
            """),
            {"chat": chat_id, "until": until, "senders": senders, "external": external_id},
        )
    )


def external_ids(connection: Connection, ids: Sequence[int], after: datetime | None) -> list[str]:
    """The platform's ids of these messages; with `after` of those alone that said that they were sent later."""
    return list(
        connection.scalars(
            text("""
                SELECT external_id FROM messages WHERE id = ANY(:ids) AND (CAST(:after AS timestamptz) IS NULL
                    OR sent_at > :after OR metadata ? 'original_sent_at')
            """),
            {"ids": list(ids), "after": after},
        )
    )


def drop_pending_of_chat(connection: Connection, chat_id: str, until: datetime) -> None:
    """Forget the edits that waited in a chat then."""
    connection.execute(
        text("DELETE FROM pending_changes WHERE chat_id = :chat AND received_at <= :until"),
        {"chat": chat_id, "until": until},
    )


# Sessions that these people took part in and whose messages are not all there.
_PRUNED = """
    status <> 'merged' AND participants && CAST(:names AS text[])
        AND message_count <> (SELECT count(*) FROM messages m
            WHERE m.chat_id = s.chat_id AND m.session_key = s.session_key
                AND m.sent_at BETWEEN s.started_at AND s.ended_at
                AND NOT EXISTS (SELECT 1 FROM arrivals a
                    WHERE a.tenant_id = m.tenant_id AND a.message_id = m.id))
"""


def chats_with_pruned_sessions(connection: Connection, names: Sequence[str]) -> list[str]:
    """The chats that have sessions with these people and without all their messages."""
    return list(
        connection.scalars(
            text(f"SELECT DISTINCT chat_id FROM conversation_sessions s WHERE {_PRUNED} ORDER BY chat_id"),
            {"names": list(names)},
        )
    )


def pruned_sessions_with(connection: Connection, chat_id: str, names: Sequence[str]) -> list[Session]:
    """The sessions of a chat with these people and without all their messages, locked."""
    rows = connection.execute(
        text(f"""
            SELECT {COLUMNS} FROM conversation_sessions s WHERE chat_id = :chat AND {_PRUNED}
            ORDER BY id FOR NO KEY UPDATE
        """),
        {"chat": chat_id, "names": list(names)},
    )
    return [as_session(row) for row in rows]


def unname_merged(connection: Connection, names: Sequence[str]) -> None:
    """Let pointers to joined sessions name none of these people."""
    connection.execute(
        text("""
            UPDATE conversation_sessions SET participants = '{}'
            WHERE status = 'merged' AND participants && CAST(:names AS text[])
        """),
        {"names": list(names)},
    )


# Which memories go with a subject; `IS NULL` of both is a tenant's.
_MEMORIES = """
    created_at <= :until AND (CAST(:senders AS text[]) IS NULL OR user_id = ANY(:senders))
        AND (CAST(:chat AS text) IS NULL OR chat_id = :chat OR learned_in = :chat)
"""


def delete_memories(
    connection: Connection,
    tenant_id: str,
    until: datetime,
    *,
    senders: Sequence[str] | None,
    chat_id: str | None,
    limit: int,
) -> Sequence[Row[Any]]:
    """Delete a person's, a chat's or all memories with their vectors and work, at most so many.

    Rows of `(id, scope, user_id, agent_id, content_hash)`: what their tombstones are made of.
    """
    gone = connection.execute(
        text(f"""
            DELETE FROM memories WHERE id IN (SELECT id FROM memories WHERE {_MEMORIES} ORDER BY id LIMIT :limit)
            RETURNING id, scope, user_id, agent_id, content_hash
        """),
        {"until": until, "senders": senders, "chat": chat_id, "limit": limit},
    ).all()
    connection.execute(
        text("DELETE FROM work WHERE tenant_id = :tenant AND kind = 'embed' AND key = ANY(:keys)"),
        {"tenant": tenant_id, "keys": [f"memory:{row.id}" for row in gone]},
    )
    return gone


def old_sessions(connection: Connection, chat_id: str, until: datetime, limit: int) -> list[int]:
    """Sessions of a chat that ended by then, though their messages were pruned before."""
    return list(
        connection.scalars(
            text("""
                SELECT id FROM conversation_sessions WHERE chat_id = :chat AND ended_at <= :until
                ORDER BY id LIMIT :limit
            """),
            {"chat": chat_id, "until": until, "limit": limit},
        )
    )


def delete_chat(connection: Connection, tenant_id: str, chat_id: str) -> int:
    """Delete a chat that has no message left, and what names it; 0 when somebody has gone on talking there."""
    gone = connection.execute(
        text("""
            DELETE FROM chats c WHERE chat_id = :chat AND NOT EXISTS (
                SELECT 1 FROM messages m WHERE m.tenant_id = c.tenant_id AND m.chat_id = c.chat_id)
        """),
        {"chat": chat_id},
    ).rowcount
    if gone:
        given = {"tenant": tenant_id, "chat": chat_id}
        connection.execute(
            text("DELETE FROM backfills WHERE tenant_id = :tenant AND filter->>'chat_id' = :chat"), given
        )
        connection.execute(
            text("DELETE FROM work WHERE tenant_id = :tenant AND kind = 'ingest' AND key = :chat"), given
        )
    return gone


def empty_tenant(connection: Connection, tenant_id: str, until: datetime) -> None:
    """Delete what is of the tenant and of none of its chats: settings, backfills, figures, work on what is gone."""
    given = {"tenant": tenant_id, "until": until}
    for statement in (
        "UPDATE tenants SET settings = '{}' WHERE tenant_id = :tenant",
        "DELETE FROM users WHERE tenant_id = :tenant AND created_at <= :until",
        "DELETE FROM backfills WHERE tenant_id = :tenant AND created_at <= :until",
        "DELETE FROM daily_counters WHERE tenant_id = :tenant",
        "DELETE FROM work WHERE tenant_id = :tenant AND kind = 'backfill' AND owed_since <= :until",
    ):
        connection.execute(text(statement), given)


def plan(
    connection: Connection, *, chat_id: str | None, senders: Sequence[str] | None, external_id: str | None
) -> Row[Any]:
    """How many messages, chats, memories and queries a forgetting would take: a row with these names."""
    return connection.execute(
        text("""
            WITH gone AS (
                SELECT chat_id FROM messages WHERE (CAST(:chat AS text) IS NULL OR chat_id = :chat)
                    AND (CAST(:senders AS text[]) IS NULL OR sender_id = ANY(:senders))
                    AND (CAST(:external AS text) IS NULL OR external_id = :external)
            )
            SELECT count(*) AS messages, count(DISTINCT chat_id) AS chats,
                (SELECT count(*) FROM memories WHERE CAST(:external AS text) IS NULL
                    AND (CAST(:senders AS text[]) IS NULL OR user_id = ANY(:senders))
                    AND (CAST(:chat AS text) IS NULL OR chat_id = :chat OR learned_in = :chat)) AS memories,
                (SELECT count(*) FROM query_log WHERE CAST(:external AS text) IS NULL
                    AND (CAST(:senders AS text[]) IS NULL OR user_id = ANY(:senders))
                    AND (CAST(:chat AS text) IS NULL OR chat_id = :chat)) AS queries
            FROM gone
        """),
        {"chat": chat_id, "senders": senders, "external": external_id},
    ).one()


def probes(connection: Connection, ids: Sequence[int], limit: int) -> Sequence[Row[Any]]:
    """The longest of these messages with their vectors, to look for when they are gone."""
    if not vectors.exist(connection):
        vector = "NULL::integer AS space_id, NULL::integer AS size, NULL::text AS embedding"
        join = ""
    else:
        vector = "v.space_id, v.size, v.embedding"
        join = """LEFT JOIN LATERAL (SELECT space_id, vector_dims(embedding) AS size, embedding::text AS embedding
            FROM message_vectors WHERE tenant_id = m.tenant_id AND message_id = m.id LIMIT 1) v ON true"""
    return connection.execute(
        text(f"""
            SELECT m.content, {vector} FROM messages m {join} WHERE m.id = ANY(:ids)
            ORDER BY length(m.content) DESC, m.id LIMIT :limit
        """),
        {"ids": list(ids), "limit": limit},
    ).all()


def count_text(connection: Connection, content: str) -> int:
    """In how many rows a text stands word for word: summaries, memories, waiting edits, the query log, errors."""
    return int(
        connection.execute(
            text("""
                SELECT (SELECT count(*) FROM conversation_sessions
                        WHERE position(:content IN coalesce(summary_text, '') || search_text) > 0)
                    + (SELECT count(*) FROM memories WHERE position(:content IN content) > 0)
                    + (SELECT count(*) FROM pending_changes WHERE position(:content IN content) > 0)
                    + (SELECT count(*) FROM query_log
                        WHERE position(:content IN concat_ws(' ', query, answer)) > 0)
                    + (SELECT count(*) FROM work WHERE position(:content IN last_error) > 0)
                    + (SELECT count(*) FROM arrivals WHERE position(:content IN error) > 0)
                    + (SELECT count(*) FROM conversation_sessions WHERE position(:content IN failure_reason) > 0)
            """),
            {"content": content},
        ).scalar_one()
    )


def count_vector(
    connection: Connection, space_id: int, size: int, embedding: str, *, chat_id: str | None, until: datetime
) -> int:
    """How many messages until then, in one chat or anywhere, and how many memories have this very vector."""
    same = f"""space_id = {int(space_id)}
        AND embedding::halfvec({int(size)}) <=> CAST(:embedding AS halfvec({int(size)})) < 0.0001"""
    return int(
        connection.execute(
            text(f"""
                SELECT (SELECT count(*) FROM message_vectors WHERE {same} AND sent_at <= :until
                        AND (CAST(:chat AS text) IS NULL OR chat_id = :chat))
                    + (SELECT count(*) FROM memory_vectors WHERE {same})
            """),
            {"embedding": embedding, "chat": chat_id, "until": until},
        ).scalar_one()
    )
