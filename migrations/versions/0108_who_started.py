"""Backfills say who started them.

Revision: 0108
"""

from alembic import op

revision = "0108"
down_revision = "0107"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("ALTER TABLE backfills ADD COLUMN started_by text NOT NULL DEFAULT ''")


def downgrade() -> None:
    op.execute("ALTER TABLE backfills DROP COLUMN started_by")
