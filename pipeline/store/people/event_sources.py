"""SQL of sources: the platforms' own hooks and their secrets."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection, Row, text

from pipeline.store.connections.statements import run

_ADD = text("""
    INSERT INTO sources (tenant_id, source_id, platform, label, secret)
    VALUES (:tenant, :source, :platform, :label, :secret) RETURNING source_id, platform, label, created_at
""")
_LISTING = text("SELECT source_id, platform, label, created_at FROM sources ORDER BY created_at, source_id")
_REMOVE = text(
    "DELETE FROM sources WHERE source_id = :source RETURNING source_id, platform, label, created_at"
)


class SecretSource(NamedTuple):
    """What proves whoever calls a source's URL, and whose it is."""

    tenant_id: str
    platform: str
    secret: str


def add(
    connection: Connection, tenant_id: str, source_id: str, platform: str, label: str, secret: str
) -> Row[Any]:
    """Add a source; return it without its secret."""
    values = {"source": source_id, "platform": platform, "label": label, "secret": secret}
    return run(connection, _ADD, tenant=tenant_id, **values).one()


def listing(connection: Connection) -> Sequence[Row[Any]]:
    """Return the tenant's sources without their secrets, the oldest first."""
    return run(connection, _LISTING).all()


def remove(connection: Connection, source_id: str) -> Row[Any] | None:
    """Remove a source and return it without its secret; None without any."""
    return run(connection, _REMOVE, source=source_id).one_or_none()


def find(connection: Connection, source_id: str) -> SecretSource | None:
    """Return the source of this id, whosever it is; None without any."""
    row = run(connection, "SELECT tenant, platform, secret FROM source_with(:source)", source=source_id).one()
    return SecretSource(*row) if row.tenant is not None else None
