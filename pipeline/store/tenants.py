"""SQL of a tenant's settings."""

from typing import Any

from sqlalchemy import Connection, text
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.sql import bindparam


def ensure(connection: Connection, tenant_id: str) -> None:
    """Make the tenant when it is new."""
    connection.execute(
        text("INSERT INTO tenants (tenant_id) VALUES (:tenant) ON CONFLICT DO NOTHING"), {"tenant": tenant_id}
    )


def settings(connection: Connection) -> dict[str, Any]:
    """What the tenant has set."""
    found: dict[str, Any] | None = connection.scalar(text("SELECT settings FROM tenants"))
    return found or {}


def set_setting(connection: Connection, tenant_id: str, name: str, value: str) -> None:
    """Set one of them, and make the tenant when it is new."""
    connection.execute(
        text("""
            INSERT INTO tenants (tenant_id, settings) VALUES (:tenant, :given)
            ON CONFLICT (tenant_id) DO UPDATE SET settings = tenants.settings || excluded.settings
        """).bindparams(bindparam("given", type_=JSONB)),
        {"tenant": tenant_id, "given": {name: value}},
    )
