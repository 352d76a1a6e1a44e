"""Isolate the tenants of a table: row-level security and grants, as every table with a `tenant_id` needs them."""

from alembic import op


def isolate_tenants(table: str) -> None:
    """Let the app see one tenant's rows, and the backup role read all of them."""
    op.execute(f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY")
    op.execute(f"ALTER TABLE {table} FORCE ROW LEVEL SECURITY")
    op.execute(
        f"CREATE POLICY one_tenant ON {table} TO backscroll_app "
        "USING (tenant_id = nullif(current_setting('app.tenant_id', true), ''))"
    )
    op.execute(f"GRANT SELECT, INSERT, UPDATE, DELETE ON {table} TO backscroll_app")
    op.execute(f"GRANT SELECT ON {table} TO backscroll_backup")
