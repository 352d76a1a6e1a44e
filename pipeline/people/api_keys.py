"""Create, list, rotate and revoke the API keys of a tenant.

A secret is shown once, and only its SHA-256 is kept: it has 256 random bits, so nobody can guess what was hashed.
"""

import hashlib
import secrets
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from sqlalchemy import Connection

from pipeline.people import suppression
from pipeline.store import api_keys as store
from pipeline.store.chats import chats
from pipeline.store.connections.database import Database
from schemas.bots import CurrentKey, KeyIn, ListedKey, NewKey, Rotation
from schemas.errors import Conflict, InvalidInput, NotFound

PREFIX = "bks_"
"""Lets secret scanners recognize a published key."""
SECRET_BYTES = 32


class GrantsTooMuch(InvalidInput):
    """A key would grant more than it has itself."""


def digest_of(secret: str) -> bytes:
    """Return the digest of a secret, which is all that is kept of it."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).digest()


def create(database: Database, tenant_id: str, grant: KeyIn, by: CurrentKey | None = None) -> NewKey:
    """Create a key, and the tenant with its first one.

    Raises `GrantsTooMuch` if it grants more than the key `by`; None: no limit, as for whoever can reach the database.
    """
    if grant.expires_at is not None and grant.expires_at <= datetime.now(UTC):
        raise InvalidInput("expires_at: must be in the future", field="expires_at")
    if by is not None:
        _require_within(by, grant)
    secret = _secret()
    with database.tenant(tenant_id) as connection:
        chats.ensure_tenant(connection, tenant_id)
        made = store.insert(connection, tenant_id, grant, digest_of(secret))
    return NewKey(**made.model_dump(), key=secret)


def listing(database: Database, tenant_id: str) -> list[ListedKey]:
    """Return the newest keys, revoked and expired ones too."""
    with database.tenant(tenant_id) as connection:
        return store.listing(connection)


def rotate(
    database: Database, tenant_id: str, key_id: int, rotation: Rotation, by: CurrentKey | None = None
) -> NewKey:
    """Give a key a new secret; the old one works for `keep_hours` more, so at most two are valid at once.

    Raises `NotFound`, `Conflict` for a key that has ended, and `GrantsTooMuch` as `create` does.
    """
    secret, now = _secret(), datetime.now(UTC)
    until = now + timedelta(hours=rotation.keep_hours)
    with database.tenant(tenant_id) as connection:
        key = store.hold(connection, key_id)
        if key is None:
            raise _unknown(key_id)
        if key.revoked_at is not None or (key.expires_at is not None and key.expires_at <= now):
            ended = "was revoked" if key.revoked_at is not None else "has expired"
            raise Conflict(f"key {key_id} {ended}, and has no secret any more: create another one")
        if by is not None:
            # whoever rotates a key learns its new secret
            _require_within(by, key)
        _note_end(connection, tenant_id, key_id, until)
        rotated = store.rotate(connection, key_id, digest_of(secret), until)
    return NewKey(**rotated.model_dump(), key=secret)


def revoke(database: Database, tenant_id: str, key_id: int) -> ListedKey:
    """Revoke a key with all its secrets; idempotent. Raises `NotFound`."""
    with database.tenant(tenant_id) as connection:
        revoked = store.revoke(connection, key_id)
        if revoked is None:
            raise _unknown(key_id)
        _note_end(connection, tenant_id, key_id, None)
    return revoked


def end_login(database: Database, tenant_id: str, login: bytes) -> None:
    """End a login for good, for all processes."""
    with database.tenant(tenant_id) as connection:
        suppression.put(connection, tenant_id, [("key", "login", login.hex())], None)


def has_ended(database: Database, tenant_id: str, login: bytes) -> bool:
    """Tell whether a login has been ended."""
    with database.tenant(tenant_id) as connection:
        return suppression.is_suppressed(connection, "key", "login", login.hex())


def end_again(connection: Connection, key: bytes, ended: Mapping[bytes, datetime | None]) -> int:
    """End the keys whose secrets have ended according to a suppression list with this key; return how many."""
    names = {suppression.hash_of(key, "key", d.hex()): key_id for key_id, d in store.digests(connection)}
    again = names.keys() & ended.keys()
    for name in again:
        store.end(connection, names[name], ended[name])
    return len(again)


def _note_end(connection: Connection, tenant_id: str, key_id: int, until: datetime | None) -> None:
    """Put a key's secret on the suppression list, for restored backups that contain it; None: it ended for good."""
    (secret,) = (digest.hex() for known_id, digest in store.digests(connection) if known_id == key_id)
    suppression.put(connection, tenant_id, [("key", secret)], until)


def _secret() -> str:
    return PREFIX + secrets.token_urlsafe(SECRET_BYTES)


def _unknown(key_id: int) -> NotFound:
    return NotFound(f"there is no key {key_id}: `backscroll keys list` shows those of the tenant")


def _require_within(by: CurrentKey, grant: KeyIn | ListedKey) -> None:
    """Raise `GrantsTooMuch` for more than the key `by` has."""
    for scope in grant.scopes:
        if scope not in by.scopes:
            raise GrantsTooMuch(f"your key has not the scope {scope} itself", field="scopes")
    if by.chats is not None and (grant.chats is None or not set(grant.chats) <= set(by.chats)):
        raise GrantsTooMuch(f"your key is only for {len(by.chats)} chats itself", field="chats")
    for name in ("requests_per_second", "messages_per_day", "expires_at"):
        limit, wanted = getattr(by, name), getattr(grant, name)
        if limit is not None and (wanted is None or wanted > limit):
            raise GrantsTooMuch(f"your key has {limit} itself: give at most that", field=name)
