"""API keys that have ended are on the suppression list, for a restored backup that still knows them.

Revision: 0104
"""

from alembic import op

revision = "0104"
down_revision = "0103"
branch_labels = None
depends_on = None

_KINDS = "'message', 'user', 'chat', 'tenant', 'unremembered', 'memory'"


def _allow(kinds: str) -> None:
    op.execute("ALTER TABLE suppression_list DROP CONSTRAINT suppression_list_kind_check")
    op.execute(f"""
        ALTER TABLE suppression_list ADD CONSTRAINT suppression_list_kind_check CHECK (kind IN ({kinds}))
    """)


def upgrade() -> None:
    _allow(f"{_KINDS}, 'key'")


def downgrade() -> None:
    op.execute("DELETE FROM suppression_list WHERE kind = 'key'")
    _allow(_KINDS)
