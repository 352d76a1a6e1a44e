"""Find the memories about people that were learned in a chat, whoever they are about.

Revision: 0119
"""

from alembic import op

from migrations.concurrently import build, concurrently

revision = "0119"
down_revision = "0117"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with concurrently():
        build("memories_learned_in", "memories (tenant_id, learned_in, importance) WHERE scope = 'user'")


def downgrade() -> None:
    op.execute("DROP INDEX memories_learned_in")
