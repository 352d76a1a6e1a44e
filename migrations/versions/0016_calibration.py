"""What cosines stand for is measured for each embedding space, by the worker that embeds into it.

Revision: 0016
"""

from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("ALTER TABLE embedding_spaces ADD COLUMN calibration jsonb")
    op.execute("GRANT UPDATE (calibration) ON embedding_spaces TO backscroll_app")


def downgrade() -> None:
    op.execute("ALTER TABLE embedding_spaces DROP COLUMN calibration")
