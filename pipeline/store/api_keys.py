"""SQL of the secrets of bots: API keys by their digests, and the sources of platforms."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import Connection, Row, text

from pipeline.store.connections.statements import column, run
from schemas.bots import CurrentKey, KeyIn, ListedKey, SourceIn

MAX_LISTED = 1000

_OF = text("SELECT * FROM api_keys_of(CAST(:digests AS bytea[]))")
_COLUMNS = """id, tenant_id AS tenant, label, scopes, chats, requests_per_second, messages_per_day, created_at,
    CASE WHEN former_until > now() THEN former_until END AS former_until, expires_at, last_used_at, revoked_at"""
_INSERT = text(f"""
    INSERT INTO api_keys (tenant_id, label, digest, scopes, chats, requests_per_second, messages_per_day, expires_at)
    VALUES (:tenant, :label, :digest, :scopes, :chats, :requests_per_second, :messages_per_day, :expires_at)
    RETURNING {_COLUMNS}
""")
_LISTING = text(f"SELECT {_COLUMNS} FROM api_keys ORDER BY id DESC LIMIT {MAX_LISTED}")
_HOLD = text(f"SELECT {_COLUMNS} FROM api_keys WHERE id = :id FOR UPDATE")
_ROTATE = text(f"""
    UPDATE api_keys SET former_digest = digest, former_until = :until, digest = :digest WHERE id = :id
    RETURNING {_COLUMNS}
""")
_REVOKE = text(f"""
    UPDATE api_keys SET revoked_at = coalesce(revoked_at, now()) WHERE id = :id RETURNING {_COLUMNS}
""")
# `least` ignores nulls
_END = text("""
    UPDATE api_keys SET expires_at = least(expires_at, :until),
        revoked_at = CASE WHEN CAST(:until AS timestamptz) IS NULL THEN coalesce(revoked_at, now()) ELSE revoked_at END
    WHERE id = :id
""")
_USED = text("""
    UPDATE api_keys SET last_used_at = now()
    WHERE id = ANY(:ids) AND (last_used_at IS NULL OR last_used_at < now() - interval '1 minute')
""")
_TODAY = "(now() AT TIME ZONE 'UTC')::date"
_TAKE = text(f"""
    UPDATE api_keys SET counted_on = {_TODAY},
        counted = CASE WHEN counted_on = {_TODAY} THEN counted ELSE 0 END + :messages
    WHERE id = :id
        AND CASE WHEN counted_on = {_TODAY} THEN counted ELSE 0 END + :messages <= messages_per_day
    RETURNING id
""")
_FORGET_CHAT = [
    text(f"UPDATE {table} SET chats = array_remove(chats, :chat) WHERE :chat = ANY(chats)")
    for table in ("api_keys", "sources")
]


def find(connection: Connection, digests: Sequence[bytes]) -> dict[bytes, CurrentKey]:
    """Find the keys of any tenant that are valid now, by the digests of their secrets."""
    rows = (row._asdict() for row in run(connection, _OF, digests=list(digests)))
    return {bytes(row.pop("found")): CurrentKey(**row) for row in rows}


def insert(connection: Connection, tenant_id: str, grant: KeyIn, digest: bytes) -> ListedKey:
    """Store a new key of an existing tenant."""
    return _listed(run(connection, _INSERT, tenant=tenant_id, digest=digest, **grant.model_dump()).one())


def listing(connection: Connection) -> list[ListedKey]:
    """Return the newest keys, revoked and expired ones too."""
    return [_listed(row) for row in run(connection, _LISTING)]


def hold(connection: Connection, key_id: int) -> ListedKey | None:
    """Lock and return a key."""
    row = run(connection, _HOLD, id=key_id).first()
    return None if row is None else _listed(row)


def rotate(connection: Connection, key_id: int, digest: bytes, until: datetime) -> ListedKey:
    """Give a key another digest; the old one stays valid until that time."""
    return _listed(run(connection, _ROTATE, id=key_id, digest=digest, until=until).one())


def revoke(connection: Connection, key_id: int) -> ListedKey | None:
    """Revoke a key for good, or return None if there is none."""
    row = run(connection, _REVOKE, id=key_id).first()
    return None if row is None else _listed(row)


def digests(connection: Connection) -> list[tuple[int, bytes]]:
    """Return `(key, digest of its present secret)` of all keys."""
    return [(row.id, bytes(row.digest)) for row in run(connection, "SELECT id, digest FROM api_keys")]


def end(connection: Connection, key_id: int, until: datetime | None) -> None:
    """End a key at a time; None: revoke it."""
    run(connection, _END, id=key_id, until=until)


def note_use(connection: Connection, key_ids: Sequence[int]) -> None:
    """Record the use of these keys, at most once a minute each."""
    run(connection, _USED, ids=key_ids)


def take_messages(connection: Connection, key_id: int, messages: int) -> bool:
    """Count messages of a key with a daily limit, all of them or, beyond the limit, none."""
    return bool(column(connection, _TAKE, id=key_id, messages=messages))


def forget_chat(connection: Connection, chat_id: str) -> None:
    """Take a chat from the keys and sources that name it; one that was only for this chat may name none then."""
    for statement in _FORGET_CHAT:
        run(connection, statement, chat=chat_id)


def _listed(row: Row[Any]) -> ListedKey:
    return ListedKey(**row._mapping)


_ADD = text("""
    INSERT INTO sources (tenant_id, source_id, platform, label, secret, chats, made_by)
    VALUES (:tenant, :source, :platform, :label, :secret, :chats, :made_by) RETURNING *
""")
# as `source_with`, which finds none whose key has ended
_SOURCE_LISTING = text("""
    SELECT s.*, k.id IS NOT NULL AND (k.revoked_at IS NOT NULL OR coalesce(k.expires_at <= now(), false)) AS has_ended
    FROM sources s LEFT JOIN api_keys k ON k.id = s.made_by ORDER BY s.created_at, s.source_id
""")
_REMOVE = text("DELETE FROM sources WHERE source_id = :source RETURNING *")


class SecretSource(NamedTuple):
    """A source's secret, and the key that its platform need not send: for its chats, with its maker's daily limit."""

    platform: str
    secret: str
    key: CurrentKey


def add_source(
    connection: Connection, tenant_id: str, source_id: str, source: SourceIn, secret: str, made_by: int | None
) -> Row[Any]:
    """Add a source that a key makes."""
    values = {"platform": source.platform, "label": source.label, "chats": source.chats, "made_by": made_by}
    return run(connection, _ADD, tenant=tenant_id, source=source_id, secret=secret, **values).one()


def list_sources(connection: Connection) -> Sequence[Row[Any]]:
    """Return the tenant's sources, the oldest first, each with whether the key that made it `has_ended`."""
    return run(connection, _SOURCE_LISTING).all()


def remove_source(connection: Connection, source_id: str) -> Row[Any] | None:
    """Remove a source and return it; None without any."""
    return run(connection, _REMOVE, source=source_id).one_or_none()


def find_source(connection: Connection, source_id: str) -> SecretSource | None:
    """Return the source of this id, whosever it is; None without any, or when the key that made it has ended."""
    statement = """
        SELECT tenant, platform, label, secret, chats, made_by, messages_per_day FROM source_with(:source)
    """
    row = run(connection, statement, source=source_id).one()
    if row.tenant is None:
        return None
    key = CurrentKey(
        id=row.made_by,
        tenant=row.tenant,
        label=row.label,
        scopes=["ingest"],
        chats=row.chats,
        messages_per_day=row.messages_per_day,
    )
    return SecretSource(row.platform, row.secret, key)
