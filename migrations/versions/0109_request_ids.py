"""A provider's id of a request, by which it can be asked about.

Revision: 0109
"""

from alembic import op

revision = "0109"
down_revision = "0108"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("ALTER TABLE llm_calls ADD COLUMN request_id text")


def downgrade() -> None:
    op.execute("ALTER TABLE llm_calls DROP COLUMN request_id")
