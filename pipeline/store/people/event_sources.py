"""SQL of sources: the platforms' own hooks and their secrets."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection, Row, text

from pipeline.store.connections.statements import run
from schemas.bots.event_sources import SourceIn
from schemas.bots.keys import CurrentKey

_ADD = text("""
    INSERT INTO sources (tenant_id, source_id, platform, label, secret, chats, made_by)
    VALUES (:tenant, :source, :platform, :label, :secret, :chats, :made_by) RETURNING *
""")
# as `source_with`, which finds none whose key has ended
_LISTING = text("""
    SELECT s.*, k.id IS NOT NULL AND (k.revoked_at IS NOT NULL OR coalesce(k.expires_at <= now(), false)) AS has_ended
    FROM sources s LEFT JOIN api_keys k ON k.id = s.made_by ORDER BY s.created_at, s.source_id
""")
_REMOVE = text("DELETE FROM sources WHERE source_id = :source RETURNING *")


class SecretSource(NamedTuple):
    """A source's secret, and the key that its platform need not send: for its chats, with its maker's daily limit."""

    platform: str
    secret: str
    key: CurrentKey


def add(
    connection: Connection, tenant_id: str, source_id: str, source: SourceIn, secret: str, made_by: int | None
) -> Row[Any]:
    """Add a source that a key makes."""
    values = {"platform": source.platform, "label": source.label, "chats": source.chats, "made_by": made_by}
    return run(connection, _ADD, tenant=tenant_id, source=source_id, secret=secret, **values).one()


def listing(connection: Connection) -> Sequence[Row[Any]]:
    """Return the tenant's sources, the oldest first, each with whether the key that made it `has_ended`."""
    return run(connection, _LISTING).all()


def remove(connection: Connection, source_id: str) -> Row[Any] | None:
    """Remove a source and return it; None without any."""
    return run(connection, _REMOVE, source=source_id).one_or_none()


def find(connection: Connection, source_id: str) -> SecretSource | None:
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
