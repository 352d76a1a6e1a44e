"""Processes state what they run with, and since when, so that commands speak of them and not of their own shell.

Revision: 0107
"""

from alembic import op

revision = "0107"
down_revision = "0106"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("""
        CREATE TABLE processes (kind text, host text, pid integer, settings jsonb NOT NULL,
            began_at timestamptz NOT NULL DEFAULT now(), seen_at timestamptz NOT NULL DEFAULT now(),
            PRIMARY KEY (kind, host, pid));
        GRANT SELECT, INSERT, UPDATE, DELETE ON processes TO backscroll_app;
        GRANT SELECT ON processes TO backscroll_maintenance;
    """)


def downgrade() -> None:
    op.execute("DROP TABLE processes")
