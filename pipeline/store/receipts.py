"""SQL of receipts: what was asked to be forgotten, and how much of it there was."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, text
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.sql import bindparam

from schemas.forgetting import Receipt

_RECEIPT = "id, kind, encode(subject_hash, 'hex') AS subject_hash, until, counts, created_at, finished_at"

_INSERT = text("""
    INSERT INTO forget_receipts (tenant_id, kind, subject, subject_hash, until)
    VALUES (:tenant, :kind, :subject, :hash, :until) RETURNING id
""").bindparams(bindparam("subject", type_=JSONB))

_GET = text(f"SELECT {_RECEIPT} FROM forget_receipts WHERE id = :id")
_LISTING = text(f"SELECT {_RECEIPT} FROM forget_receipts ORDER BY id DESC LIMIT :limit")
_SUBJECT = text("SELECT subject FROM forget_receipts WHERE id = :id")
_DROP = text("DELETE FROM forget_receipts WHERE id = :id")


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
            _INSERT,
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
    row = connection.execute(_GET, {"id": receipt_id}).one_or_none()
    return Receipt(**row._mapping) if row else None


_LATEST = text(f"""
    SELECT {_RECEIPT} FROM forget_receipts WHERE kind = :kind AND subject_hash = :hash
    ORDER BY id DESC LIMIT 1
""")


def latest(connection: Connection, kind: str, subject_hash: bytes) -> Receipt | None:
    """The newest receipt of a kind for a subject."""
    row = connection.execute(_LATEST, {"kind": kind, "hash": subject_hash}).one_or_none()
    return Receipt(**row._mapping) if row else None


def listing(connection: Connection, limit: int) -> list[Receipt]:
    """The newest receipts."""
    rows = connection.execute(_LISTING, {"limit": limit})
    return [Receipt(**row._mapping) for row in rows]


def subject(connection: Connection, receipt_id: int) -> dict[str, Any] | None:
    """What a receipt is about, as long as it is not forgotten."""
    found: dict[str, Any] | None = connection.scalar(_SUBJECT, {"id": receipt_id})
    return found


_ADD = text("""
    UPDATE forget_receipts SET
        counts = (SELECT coalesce(jsonb_object_agg(name, total), '{}') FROM (
            SELECT key AS name, sum(value::bigint) AS total FROM (
                SELECT * FROM jsonb_each_text(forget_receipts.counts)
                UNION ALL SELECT * FROM jsonb_each_text(:counts)) both_counts GROUP BY key) summed),
        subject = CASE WHEN :done THEN NULL ELSE subject END,
        finished_at = CASE WHEN :done THEN clock_timestamp() END
    WHERE id = :id
""").bindparams(bindparam("counts", type_=JSONB))


def add(connection: Connection, receipt_id: int, counts: Mapping[str, int], *, done: bool = False) -> None:
    """Add to a receipt's counts; with `done` it forgets whom it was about."""
    connection.execute(_ADD, {"id": receipt_id, "counts": dict(counts), "done": done})


_NAME = text("""
    UPDATE forget_receipts SET subject = subject || jsonb_build_object('names', CAST(:names AS text[]))
    WHERE id = :id AND subject IS NOT NULL
""")


def name(connection: Connection, receipt_id: int, names: Sequence[str]) -> None:
    """Keep with what a receipt is about the names that a person went by, as long as it is not forgotten."""
    connection.execute(_NAME, {"id": receipt_id, "names": list(names)})


def drop(connection: Connection, receipt_id: int) -> None:
    """Delete a receipt that nobody was given."""
    connection.execute(_DROP, {"id": receipt_id})
