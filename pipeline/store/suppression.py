"""SQL of tombstones: a tenant's key, the lock between accepting and forgetting, and what must not come back."""

import secrets
from collections.abc import Collection, Iterable
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row

from pipeline.store import tenants
from pipeline.store.sql import text

# Any constant will do; with the tenant's name it makes one advisory lock for each tenant.
FORGETTING = 0x62666F72
KEY_BYTES = 32


def lock(connection: Connection, tenant_id: str, chat_id: str | None = None, *, alone: bool = False) -> None:
    """Hold off forgetting while something is stored; `alone`: hold off whatever is being stored.

    Two levels: with a chat, storing holds tenant and chat shared, and `alone` the chat alone, so that a deletion
    in one chat waits for none of the others. Waits, for as long as the longest batch that is being accepted; first
    statement of its transaction.
    """
    tenant = f"hashtextextended(:tenant, {FORGETTING})"
    mode = "pg_advisory_xact_lock" if alone else "pg_advisory_xact_lock_shared"
    if chat_id is None:
        connection.execute(text(f"SELECT {mode}({tenant})"), {"tenant": tenant_id})
    else:
        connection.execute(
            text(f"SELECT pg_advisory_xact_lock_shared({tenant}), {mode}(hashtextextended(:chat, {tenant}))"),
            {"tenant": tenant_id, "chat": chat_id},
        )


def key(connection: Connection) -> bytes | None:
    """The tenant's key; None: there is no tombstone yet."""
    found = connection.scalar(text("SELECT key FROM tenant_keys"))
    return bytes(found) if found is not None else None


def ensure_key(connection: Connection, tenant_id: str) -> bytes:
    """The tenant's key, made when there is none."""
    tenants.ensure(connection, tenant_id)
    connection.execute(
        text("INSERT INTO tenant_keys (tenant_id, key) VALUES (:tenant, :key) ON CONFLICT DO NOTHING"),
        {"tenant": tenant_id, "key": secrets.token_bytes(KEY_BYTES)},
    )
    return bytes(connection.execute(text("SELECT key FROM tenant_keys")).scalar_one())


def put(
    connection: Connection, tenant_id: str, kind: str, hashes: Iterable[bytes], until: datetime | None
) -> None:
    """Set up tombstones; one that stands already reaches as far as either."""
    connection.execute(
        text("""
            INSERT INTO tombstones (tenant_id, hash, kind, until)
            SELECT :tenant, hash, :kind, :until FROM unnest(CAST(:hashes AS bytea[])) AS hash ORDER BY hash
            ON CONFLICT (tenant_id, hash) DO UPDATE SET
                until = CASE WHEN tombstones.until IS NULL OR excluded.until IS NULL THEN NULL
                             ELSE greatest(tombstones.until, excluded.until) END
        """),
        {"tenant": tenant_id, "kind": kind, "until": until, "hashes": sorted(set(hashes))},
    )


def remove(connection: Connection, stone: bytes) -> None:
    """Take a tombstone away."""
    connection.execute(text("DELETE FROM tombstones WHERE hash = :hash"), {"hash": stone})


def among(connection: Connection, hashes: Collection[bytes]) -> dict[bytes, Row[Any]]:
    """Those of these hashes that a tombstone stands for, each with its `until`."""
    rows = connection.execute(
        text("SELECT hash, until FROM tombstones WHERE hash = ANY(:hashes)"), {"hashes": list(hashes)}
    )
    return {bytes(row.hash): row for row in rows}
