"""The size of an edit that waits for its message, where it was cut.

Revision: 0111
"""

from alembic import op

revision = "0111"
down_revision = "0110"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("ALTER TABLE pending_changes ADD COLUMN original_bytes bigint")


def downgrade() -> None:
    op.execute("ALTER TABLE pending_changes DROP COLUMN original_bytes")
