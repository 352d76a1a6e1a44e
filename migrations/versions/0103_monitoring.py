"""Monitoring: the figures of a day over all tenants by an index, and what its role reads beside jobs.

Revision: 0103
"""

from alembic import op

from migrations.concurrently import build, concurrently, drop

revision = "0103"
down_revision = "0102"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with concurrently():
        # the day alone: an update of a figure stays in place (HOT)
        build("daily_counters_day", "daily_counters (day)")
    # since when a message waits, and which providers are stopped; no texts
    op.execute("GRANT SELECT (tenant_id, id, received_at) ON messages TO backscroll_maintenance")
    op.execute("CREATE POLICY all_tenants ON messages TO backscroll_maintenance USING (true)")
    op.execute("GRANT SELECT ON llm_providers TO backscroll_maintenance")


def downgrade() -> None:
    with concurrently():
        drop("daily_counters_day")
    op.execute("REVOKE SELECT ON llm_providers FROM backscroll_maintenance")
    op.execute("DROP POLICY all_tenants ON messages")
    op.execute("REVOKE SELECT (tenant_id, id, received_at) ON messages FROM backscroll_maintenance")
