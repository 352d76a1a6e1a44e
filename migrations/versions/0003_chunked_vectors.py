"""A vector for each chunk of a text that is longer than its model reads, where there are vector tables.

Revision: 0003, after 0001
"""

from alembic import op
from sqlalchemy import text

from migrations.concurrently import build, concurrently

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

OWNERS = {
    "message_vectors": "message_id",
    "session_vectors": "session_id",
    "memory_vectors": "memory_id",
}
# those of a table that is made today are complete, and one that an interrupted migration left is continued
_KEY_COLUMNS = text("""
    SELECT cardinality(conkey) FROM pg_constraint
    WHERE conrelid = to_regclass(:table) AND contype = 'p'
""")


def upgrade() -> None:
    tables = [table for table in OWNERS if _key_columns(table) == 3]
    for table in tables:
        op.execute(f"ALTER TABLE {table} ADD COLUMN IF NOT EXISTS chunk_index smallint NOT NULL DEFAULT 0")
    _replace_keys(tables, "tenant_id, {owner}, space_id, chunk_index")


def downgrade() -> None:
    tables = [table for table in OWNERS if _key_columns(table) == 4]
    for table in tables:
        # row-level security hides the rows from the owner, too
        op.execute(f"ALTER TABLE {table} NO FORCE ROW LEVEL SECURITY")
        op.execute(f"DELETE FROM {table} WHERE chunk_index > 0")
        op.execute(f"ALTER TABLE {table} FORCE ROW LEVEL SECURITY")
    _replace_keys(tables, "tenant_id, {owner}, space_id")
    for table in tables:
        op.execute(f"ALTER TABLE {table} DROP COLUMN chunk_index")


def _key_columns(table: str) -> int | None:
    found: int | None = op.get_bind().scalar(_KEY_COLUMNS, {"table": table})
    return found


def _replace_keys(tables: list[str], columns: str) -> None:
    """Give tables another primary key, whose index is built beside running work."""
    with concurrently():
        for table in tables:
            build(f"{table}_key", f"{table} ({columns.format(owner=OWNERS[table])})", unique=True)
    for table in tables:
        op.execute(
            f"ALTER TABLE {table} DROP CONSTRAINT {table}_pkey, "
            f"ADD CONSTRAINT {table}_pkey PRIMARY KEY USING INDEX {table}_key"
        )
