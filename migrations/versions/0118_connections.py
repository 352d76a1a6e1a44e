"""How many connections to Postgres each running process may open.

Revision: 0118
"""

from alembic import op

revision = "0118"
down_revision = "0117"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("ALTER TABLE processes ADD COLUMN connections integer NOT NULL DEFAULT 0")


def downgrade() -> None:
    op.execute("ALTER TABLE processes DROP COLUMN connections")
