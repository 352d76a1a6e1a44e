"""Who has left a chat is on the suppression list, for a platform that says once more that they came.

Revision: 0105
"""

from alembic import op

revision = "0105"
down_revision = "0104"
branch_labels = None
depends_on = None

_KINDS = "'message', 'user', 'chat', 'tenant', 'unremembered', 'memory', 'key'"


def _allow(kinds: str) -> None:
    op.execute("ALTER TABLE suppression_list DROP CONSTRAINT suppression_list_kind_check")
    op.execute(f"""
        ALTER TABLE suppression_list ADD CONSTRAINT suppression_list_kind_check CHECK (kind IN ({kinds}))
    """)


def upgrade() -> None:
    _allow(f"{_KINDS}, 'left'")


def downgrade() -> None:
    op.execute("DELETE FROM suppression_list WHERE kind = 'left'")
    _allow(_KINDS)
