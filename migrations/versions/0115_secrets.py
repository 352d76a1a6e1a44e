"""A backfill that masks credentials in what is stored.

Revision: 0115
"""

from alembic import op

revision = "0115"
down_revision = "0114"
branch_labels = None
depends_on = None

_KINDS = "'embed', 'summarize', 'rollup', 'extract', 'sessionize', 'answers'"


def upgrade() -> None:
    _allow(f"{_KINDS}, 'secrets'")


def downgrade() -> None:
    op.execute("DELETE FROM backfills WHERE kind = 'secrets'")
    _allow(_KINDS)


def _allow(kinds: str) -> None:
    op.execute(f"""
        ALTER TABLE backfills DROP CONSTRAINT backfills_kind_check,
            ADD CONSTRAINT backfills_kind_check CHECK (kind IN ({kinds}))
    """)
