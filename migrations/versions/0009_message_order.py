"""The index of a session's messages orders those of one instant, too, so that neighbours are read without sorting.

Revision: 0009
"""

from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

_WITHOUT = "CREATE INDEX messages_order ON messages (tenant_id, chat_id, session_key, sent_at, id)"
_WITH = "CREATE INDEX messages_order ON messages (tenant_id, chat_id, session_key, sent_at, position, id)"


def upgrade() -> None:
    _make_anew(_WITH)


def downgrade() -> None:
    _make_anew(_WITHOUT)


def _make_anew(statement: str) -> None:
    op.execute("DROP INDEX messages_order")
    op.execute(statement)
