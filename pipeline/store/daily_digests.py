"""SQL of daily digests: when each is due, and how far it was sent."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, text

from pipeline.store.connections.statements import number, run
from schemas.digests import DailyDigestIn
from schemas.kinds import DIGEST

_ADD = text("""
    INSERT INTO digests (tenant_id, chat_id, daily, time_zone, url, budget_tokens, secret, made_by, next_at, sent_until)
    VALUES (:tenant, :chat_id, :daily, :time_zone, :url, :budget_tokens, :secret, :made_by, :next_at, :sent_until)
    RETURNING *, id AS digest_id
""")
_LISTING = """
    SELECT d.*, d.id AS digest_id, c.time_zone AS chat_zone,
        d.made_by IS NOT NULL AND (k.id IS NULL OR k.revoked_at IS NOT NULL OR coalesce(k.expires_at <= now(), false))
            AS has_ended
    FROM digests d JOIN chats c USING (tenant_id, chat_id) LEFT JOIN api_keys k ON k.id = d.made_by
"""
_GET = text(f"{_LISTING} WHERE d.id = :id")
_LIST = text(f"{_LISTING} ORDER BY d.id")
_REMOVE = text("DELETE FROM digests WHERE id = :id RETURNING *, id AS digest_id")
_SETTLE = text("""
    UPDATE digests SET last_error = :error, next_at = :next_at, sent_until = coalesce(:sent_until, sent_until)
    WHERE id = :id
""")
_DUE = text(f"""
    SELECT tenant_id, id FROM digests d WHERE next_at <= now() AND NOT EXISTS (
        SELECT FROM jobs j
        WHERE j.tenant_id = d.tenant_id AND j.kind = '{DIGEST}' AND j.key = CAST(d.id AS text))
    ORDER BY next_at LIMIT :limit
""")


def add(
    connection: Connection,
    tenant_id: str,
    wanted: DailyDigestIn,
    *,
    secret: str,
    made_by: int | None,
    next_at: datetime,
    sent_until: datetime,
) -> Row[Any]:
    """Add a digest that a key makes; the first one is of the time from `sent_until`."""
    values = {"secret": secret, "made_by": made_by, "next_at": next_at, "sent_until": sent_until}
    return run(connection, _ADD, tenant=tenant_id, **wanted.model_dump(), **values).one()


def count(connection: Connection) -> int:
    """Count the tenant's digests."""
    return number(connection, "SELECT count(*) FROM digests")


def get(connection: Connection, digest_id: int) -> Row[Any] | None:
    """Return a digest with its chat's time zone, and whether the key that made it `has_ended`."""
    return run(connection, _GET, id=digest_id).one_or_none()


def listing(connection: Connection) -> Sequence[Row[Any]]:
    """Return the tenant's digests as `get` does, the oldest first."""
    return run(connection, _LIST).all()


def remove(connection: Connection, digest_id: int) -> Row[Any] | None:
    """Remove a digest and return it; None without any."""
    return run(connection, _REMOVE, id=digest_id).one_or_none()


def settle(
    connection: Connection,
    digest_id: int,
    *,
    next_at: datetime,
    sent_until: datetime | None = None,
    error: str | None = None,
) -> None:
    """Record when a digest is due next, up to when one has arrived, and the last error."""
    values = {"next_at": next_at, "sent_until": sent_until, "error": error}
    run(connection, _SETTLE, id=digest_id, **values)


def due(connection: Connection, limit: int) -> list[tuple[str, int]]:
    """Return `(tenant, digest)` of those that are due and have no job (maintenance)."""
    return [(row.tenant_id, row.id) for row in run(connection, _DUE, limit=limit)]
