"""SQL of tenants and their settings."""

from typing import Any

from sqlalchemy import Connection, text
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.sql import bindparam

_ENSURE = text("INSERT INTO tenants (tenant_id) VALUES (:tenant) ON CONFLICT DO NOTHING")
_SETTINGS = text("SELECT settings FROM tenants")
_SET = text("UPDATE tenants SET settings = settings || :given WHERE tenant_id = :tenant").bindparams(
    bindparam("given", type_=JSONB)
)
_EVERY = text("SELECT tenant_id FROM tenants ORDER BY tenant_id")


def ensure(connection: Connection, tenant_id: str) -> None:
    """Create the tenant if it is new."""
    connection.execute(_ENSURE, {"tenant": tenant_id})


def settings(connection: Connection) -> dict[str, Any]:
    """Return the tenant's settings."""
    found: dict[str, Any] | None = connection.scalar(_SETTINGS)
    return found or {}


def set_setting(connection: Connection, tenant_id: str, name: str, value: str) -> None:
    """Set one of them; create the tenant if it is new."""
    ensure(connection, tenant_id)
    connection.execute(_SET, {"tenant": tenant_id, "given": {name: value}})


def every(connection: Connection) -> list[str]:
    """Return the id of every tenant (maintenance)."""
    return list(connection.scalars(_EVERY))
