"""Embedding spaces that stand by after a switch to another, and when each was active last.

Revision: 0004
"""

from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

_CONSTRAINT = "embedding_spaces_status_check"


def upgrade() -> None:
    op.execute(f"""
        ALTER TABLE embedding_spaces
            DROP CONSTRAINT {_CONSTRAINT},
            ADD CONSTRAINT {_CONSTRAINT} CHECK (status IN ('building', 'active', 'standby', 'retired')),
            ADD COLUMN activated_at timestamptz
    """)
    op.execute("UPDATE embedding_spaces SET activated_at = now() WHERE status = 'active'")


def downgrade() -> None:
    op.execute("UPDATE embedding_spaces SET status = 'building' WHERE status = 'standby'")
    op.execute(f"""
        ALTER TABLE embedding_spaces
            DROP COLUMN activated_at,
            DROP CONSTRAINT {_CONSTRAINT},
            ADD CONSTRAINT {_CONSTRAINT} CHECK (status IN ('building', 'active', 'retired'))
    """)
