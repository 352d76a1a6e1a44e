"""SQL of the suppression list: a tenant's key, the lock between accepting and forgetting, the entries."""

import secrets
from collections.abc import Collection, Iterable
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, text

from pipeline.store.chats import chats
from pipeline.store.connections.statements import column, in_trip, run
from pipeline.store.connections.trips import Statement

# Any constant will do; with the tenant's name it makes one advisory lock for each tenant.
FORGETTING = 0x62666F72
KEY_BYTES = 32

_TENANT = f"hashtextextended(:tenant, {FORGETTING})"
_SHARED = f"pg_advisory_xact_lock_shared({_TENANT})"
# by whether there is a chat, and whether the lock is exclusive
_LOCKS = {
    (False, False): text(f"SELECT {_SHARED}"),
    (False, True): text(f"SELECT pg_advisory_xact_lock({_TENANT})"),
    (True, False): text(
        f"SELECT {_SHARED}, pg_advisory_xact_lock_shared(hashtextextended(:chat, {_TENANT}))"
    ),
    (True, True): text(f"SELECT {_SHARED}, pg_advisory_xact_lock(hashtextextended(:chat, {_TENANT}))"),
}
_LOCK_AS_TENANT = text(f"SELECT set_config('app.tenant_id', :tenant, true), {_LOCKS[True, False].text[7:]}")
_KEY = text("SELECT key FROM tenant_keys")
_CREATE_KEY = text("INSERT INTO tenant_keys (tenant_id, key) VALUES (:tenant, :key) ON CONFLICT DO NOTHING")
_PUT = text("""
    INSERT INTO suppression_list (tenant_id, hash, kind, until)
    SELECT :tenant, hash, :kind, :until FROM unnest(CAST(:hashes AS bytea[])) AS hash ORDER BY hash
    ON CONFLICT (tenant_id, hash) DO UPDATE SET
        until = CASE WHEN suppression_list.until IS NULL OR excluded.until IS NULL THEN NULL
                     ELSE greatest(suppression_list.until, excluded.until) END
""")
_ENTRIES = text("SELECT hash, kind, until FROM suppression_list ORDER BY created_at, hash")
_LISTED = text("SELECT hash, until FROM suppression_list WHERE hash = ANY(:hashes)")


def lock(
    connection: Connection, tenant_id: str, chat_id: str | None = None, *, exclusive: bool = False
) -> None:
    """Block forgetting while something is stored, or with `exclusive` block storing.

    Two levels: with a chat, storing holds tenant and chat shared, and `exclusive` only the chat, so that a deletion
    in one chat waits for none of the others. Waits, for as long as the longest batch that is being accepted; first
    statement of its transaction.
    """
    run(
        connection,
        _LOCKS[chat_id is not None, exclusive],
        tenant=tenant_id,
        **({"chat": chat_id} if chat_id else {}),
    )


def lock_as_tenant(connection: Connection, tenant_id: str, chat_id: str) -> None:
    """Set the tenant of a transaction of `Database.undecided`, and lock as `lock` does with a chat."""
    run(connection, _LOCK_AS_TENANT, tenant=tenant_id, chat=chat_id)


def lock_at_once(tenant_id: str, chat_id: str) -> Statement:
    """Return the statement of `lock_as_tenant` for `Database.one_trip`, as its first one."""
    return in_trip(_LOCK_AS_TENANT, tenant=tenant_id, chat=chat_id)


def key(connection: Connection) -> bytes | None:
    """Return the tenant's key, or None if it has none yet."""
    return next((bytes(key) for key in column(connection, _KEY)), None)


def put_key(connection: Connection, tenant_id: str, key: bytes) -> bytes:
    """Give a tenant without a key this one; return its key."""
    chats.ensure_tenant(connection, tenant_id)
    run(connection, _CREATE_KEY, tenant=tenant_id, key=key)
    return bytes(run(connection, _KEY).scalar_one())


def ensure_key(connection: Connection, tenant_id: str) -> bytes:
    """Return the tenant's key, creating it if there is none."""
    return put_key(connection, tenant_id, secrets.token_bytes(KEY_BYTES))


def put(
    connection: Connection, tenant_id: str, kind: str, hashes: Iterable[bytes], until: datetime | None
) -> None:
    """Add entries to the suppression list; an existing one is extended to the later end."""
    run(connection, _PUT, tenant=tenant_id, kind=kind, until=until, hashes=sorted(set(hashes)))


def remove(connection: Connection, entry: bytes) -> None:
    run(connection, "DELETE FROM suppression_list WHERE hash = :hash", hash=entry)


def listed(connection: Connection, hashes: Collection[bytes]) -> dict[bytes, Row[Any]]:
    """Return the hashes that are on the suppression list, each with its `until`."""
    return {bytes(row.hash): row for row in run(connection, _LISTED, hashes=list(hashes))}


def entries(connection: Connection) -> list[tuple[bytes, str, datetime | None]]:
    """Return the whole list: `(hash, kind, until)` of each entry."""
    return [(bytes(row.hash), row.kind, row.until) for row in run(connection, _ENTRIES)]
