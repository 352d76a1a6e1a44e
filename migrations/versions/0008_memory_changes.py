"""Memories that are edited by hand, those whose expiry slides with use, and backfills that make memories.

Revision: 0008
"""

from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

_CONSTRAINT = "backfills_kind_check"
_KINDS = "embed summarize sessionize".split()
_MEMORY_KINDS = "answers extract".split()


def upgrade() -> None:
    op.execute("""
        ALTER TABLE memories
            -- worded by hand since then: what is learned later does not change its wording
            ADD COLUMN IF NOT EXISTS edited_at timestamptz,
            -- it expires that long after it was last written or shown
            ADD COLUMN IF NOT EXISTS lives_for interval
    """)
    _permit([*_KINDS, *_MEMORY_KINDS])


def downgrade() -> None:
    op.execute("ALTER TABLE memories DROP COLUMN edited_at, DROP COLUMN lives_for")
    # row-level security hides the rows from the owner, too
    op.execute("ALTER TABLE backfills NO FORCE ROW LEVEL SECURITY")
    made = ", ".join(f"'{each}'" for each in _MEMORY_KINDS)
    op.execute(f"DELETE FROM backfills WHERE kind IN ({made})")
    op.execute("ALTER TABLE backfills FORCE ROW LEVEL SECURITY")
    _permit(_KINDS)


def _permit(kinds: list[str]) -> None:
    permitted = ", ".join(f"'{each}'" for each in kinds)
    op.execute(f"""
        ALTER TABLE backfills DROP CONSTRAINT IF EXISTS {_CONSTRAINT},
            ADD CONSTRAINT {_CONSTRAINT} CHECK (kind IN ({permitted}))
    """)
