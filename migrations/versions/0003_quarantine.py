"""Arrivals that cannot be placed stand aside with their reason, so that their chat goes on.

Revision: 0003, after 0002
"""

from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # without defaults, so that no row is written anew
    op.execute(
        "ALTER TABLE arrivals ADD COLUMN quarantined_at timestamptz, ADD COLUMN error text, ADD COLUMN trace_id text"
    )


def downgrade() -> None:
    op.execute("ALTER TABLE arrivals DROP COLUMN quarantined_at, DROP COLUMN error, DROP COLUMN trace_id")
