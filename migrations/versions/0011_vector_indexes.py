"""No vector index that nobody reads: the vectors of sessions and memories are always compared one by one.

Those of messages are, too, but in a chat that is large in itself and beside all the others. Whether there is one
stands behind the walls: `backscroll doctor` looks, says which index is missing or unread, and builds or drops it.

Revision: 0011, after 0010
"""

from alembic import op
from sqlalchemy import text

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None

# The program before built them for each space, named after it. No chat has more messages than its tables rows.
UNREAD = text("""
    SELECT c.oid::regclass::text FROM pg_index i
    JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_am a ON a.oid = c.relam JOIN pg_class t ON t.oid = i.indrelid
    WHERE a.amname = 'hnsw' AND t.relnamespace = current_schema()::regnamespace
        AND (t.relname IN ('session_vectors', 'memory_vectors')
            OR t.relname = 'message_vectors' AND t.reltuples <= 20000)
""")


def upgrade() -> None:
    with op.get_context().autocommit_block():
        names = op.get_bind().scalars(UNREAD).all()
        # it waits for older transactions, and nobody waits for it
        op.execute("SET lock_timeout = 0")
        for name in names:
            op.execute(f"DROP INDEX CONCURRENTLY IF EXISTS {name}")
        op.execute("SET lock_timeout = '1s'")


def downgrade() -> None:
    """Nothing: `db upgrade` of the program before builds what it misses."""
