"""SQL of tombstones: a tenant's key, the lock between accepting and forgetting, and what must not come back."""

import secrets
from collections.abc import Collection, Iterable
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, text

from pipeline.store import tenants

# Any constant will do; with the tenant's name it makes one advisory lock for each tenant.
FORGETTING = 0x62666F72
KEY_BYTES = 32

_TENANT = f"hashtextextended(:tenant, {FORGETTING})"
_SHARED = f"pg_advisory_xact_lock_shared({_TENANT})"
# by whether there is a chat, and whether the lock is `alone`
_LOCKS = {
    (False, False): text(f"SELECT {_SHARED}"),
    (False, True): text(f"SELECT pg_advisory_xact_lock({_TENANT})"),
    (True, False): text(
        f"SELECT {_SHARED}, pg_advisory_xact_lock_shared(hashtextextended(:chat, {_TENANT}))"
    ),
    (True, True): text(f"SELECT {_SHARED}, pg_advisory_xact_lock(hashtextextended(:chat, {_TENANT}))"),
}


def lock(connection: Connection, tenant_id: str, chat_id: str | None = None, *, alone: bool = False) -> None:
    """Hold off forgetting while something is stored; `alone`: hold off whatever is being stored.

    Two levels: with a chat, storing holds tenant and chat shared, and `alone` the chat alone, so that a deletion
    in one chat waits for none of the others. Waits, for as long as the longest batch that is being accepted; first
    statement of its transaction.
    """
    statement = _LOCKS[chat_id is not None, alone]
    connection.execute(
        statement, {"tenant": tenant_id, "chat": chat_id} if chat_id else {"tenant": tenant_id}
    )


_KEY = text("SELECT key FROM tenant_keys")


def key(connection: Connection) -> bytes | None:
    """The tenant's key; None: there is no tombstone yet."""
    found = connection.scalar(_KEY)
    return bytes(found) if found is not None else None


_CREATE_KEY = text("INSERT INTO tenant_keys (tenant_id, key) VALUES (:tenant, :key) ON CONFLICT DO NOTHING")


def ensure_key(connection: Connection, tenant_id: str) -> bytes:
    """The tenant's key, made when there is none."""
    tenants.ensure(connection, tenant_id)
    connection.execute(_CREATE_KEY, {"tenant": tenant_id, "key": secrets.token_bytes(KEY_BYTES)})
    return bytes(connection.execute(_KEY).scalar_one())


_PUT = text("""
    INSERT INTO tombstones (tenant_id, hash, kind, until)
    SELECT :tenant, hash, :kind, :until FROM unnest(CAST(:hashes AS bytea[])) AS hash ORDER BY hash
    ON CONFLICT (tenant_id, hash) DO UPDATE SET
        until = CASE WHEN tombstones.until IS NULL OR excluded.until IS NULL THEN NULL
                     ELSE greatest(tombstones.until, excluded.until) END
""")


def put(
    connection: Connection, tenant_id: str, kind: str, hashes: Iterable[bytes], until: datetime | None
) -> None:
    """Set up tombstones; one that stands already reaches as far as either."""
    connection.execute(
        _PUT, {"tenant": tenant_id, "kind": kind, "until": until, "hashes": sorted(set(hashes))}
    )


_REMOVE = text("DELETE FROM tombstones WHERE hash = :hash")


def remove(connection: Connection, stone: bytes) -> None:
    """Take a tombstone away."""
    connection.execute(_REMOVE, {"hash": stone})


_AMONG = text("SELECT hash, until FROM tombstones WHERE hash = ANY(:hashes)")


def among(connection: Connection, hashes: Collection[bytes]) -> dict[bytes, Row[Any]]:
    """Those of these hashes that a tombstone stands for, each with its `until`."""
    rows = connection.execute(_AMONG, {"hashes": list(hashes)})
    return {bytes(row.hash): row for row in rows}
