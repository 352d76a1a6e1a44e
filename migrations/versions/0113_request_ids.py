"""A provider's id of a request, by which it can be asked about.

Revision: 0113
"""

from alembic import op

revision = "0113"
down_revision = "0106"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("ALTER TABLE llm_calls ADD COLUMN request_id text")


def downgrade() -> None:
    op.execute("ALTER TABLE llm_calls DROP COLUMN request_id")
