"""What each session says of when a memory holds, so that what one chat says of it is not shown in another.

Revision: 0014
"""

from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # a process of the version before leaves them empty: then the memory has none when it is next looked at
    op.execute("""
        ALTER TABLE memory_evidence
            ADD COLUMN IF NOT EXISTS holds_from timestamptz,
            ADD COLUMN IF NOT EXISTS holds_until timestamptz
    """)
    # row-level security hides the rows from the owner, too
    for table in ("memories", "memory_evidence"):
        op.execute(f"ALTER TABLE {table} NO FORCE ROW LEVEL SECURITY")
    op.execute("""
        UPDATE memory_evidence e SET holds_from = m.holds_from, holds_until = m.holds_until FROM memories m
        WHERE m.tenant_id = e.tenant_id AND m.id = e.memory_id AND e.chat_id = m.learned_in
            AND (m.holds_from IS NOT NULL OR m.holds_until IS NOT NULL)
    """)
    for table in ("memories", "memory_evidence"):
        op.execute(f"ALTER TABLE {table} FORCE ROW LEVEL SECURITY")


def downgrade() -> None:
    op.execute("ALTER TABLE memory_evidence DROP COLUMN holds_from, DROP COLUMN holds_until")
