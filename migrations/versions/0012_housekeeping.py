"""No other index that nobody reads, and tables that are vacuumed as they change.

Revision: 0012, after 0011
"""

from alembic import op

from migrations.concurrently import build, concurrently, drop

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None

# `@@` and `@>` are not leakproof, so row-level security keeps everybody from using them.
UNUSED = {
    "conversation_sessions_tsv": "conversation_sessions USING gin (tsv)",
    "memories_tsv": "memories USING gin (tsv)",
    "memories_metadata": "memories USING gin (metadata)",
}
# By default a fifth of a table changes before it is vacuumed, and a tenth before the planner looks at it: of a hundred
# million messages that is a day's work at once.
LARGE = ("messages", "message_vectors")
SHARES = (
    "autovacuum_vacuum_scale_factor",
    "autovacuum_vacuum_insert_scale_factor",
    "autovacuum_analyze_scale_factor",
)


def upgrade() -> None:
    with concurrently():
        for name in UNUSED:
            drop(name)
    for table in LARGE:
        op.execute(f"ALTER TABLE IF EXISTS {table} SET ({', '.join(f'{share} = 0.02' for share in SHARES)})")


def downgrade() -> None:
    for table in LARGE:
        op.execute(f"ALTER TABLE IF EXISTS {table} RESET ({', '.join(SHARES)})")
    with concurrently():
        for name, definition in UNUSED.items():
            build(name, definition)
