"""How surely each context answered its question.

Revision: 0112
"""

from alembic import op

revision = "0112"
down_revision = "0111"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("ALTER TABLE query_log ADD COLUMN evidence text")


def downgrade() -> None:
    op.execute("ALTER TABLE query_log DROP COLUMN evidence")
