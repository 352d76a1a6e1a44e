"""Work has a priority and a lane: live messages go before imports and backfills, and no chat before all others.

Its indexes serve one question each, so that a claim reads no more with ten million rows owed than with ten.

Revision: 0009, after 0008
"""

from alembic import op

from migrations.concurrently import build, concurrently, drop

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

# What may be claimed is indexed apart from what somebody has; a row changes sides when it is claimed.
_FREE = "WHERE due_at IS NOT NULL AND claimed IS NULL"
INDEXES = {
    # whether anything is due, and the rows that have been due longest
    "work_oldest": f"(kind, priority, due_at) {_FREE}",
    # whose turn it is: tenant by tenant, and in each chat by chat
    "work_turns": f"(kind, priority, tenant_id, lane, due_at) {_FREE}",
    # claims whose lease ran out
    "work_claimed": "(kind, due_at) WHERE claimed IS NOT NULL",
}
BEFORE = {"work_due": "(kind, tenant_id, due_at) WHERE due_at IS NOT NULL"}

# By default a fifth of a table must be dead before it is vacuumed: of a queue, that is millions of rows.
_VACUUM = {
    "autovacuum_vacuum_scale_factor": "0.01",
    "autovacuum_vacuum_threshold": "1000",
    "autovacuum_vacuum_insert_scale_factor": "0.01",
    "autovacuum_vacuum_insert_threshold": "10000",
    "autovacuum_analyze_scale_factor": "0.01",
    "autovacuum_analyze_threshold": "1000",
}


def upgrade() -> None:
    # Constants as defaults: no row is written anew. What follows commits: an interrupted run comes here again.
    op.execute("ALTER TABLE work ADD COLUMN IF NOT EXISTS priority smallint NOT NULL DEFAULT 0")
    op.execute("ALTER TABLE work ADD COLUMN IF NOT EXISTS lane integer NOT NULL DEFAULT 0")
    op.execute("ALTER TABLE arrivals ADD COLUMN IF NOT EXISTS priority smallint NOT NULL DEFAULT 0")
    options = ", ".join(f"{name} = {value}" for name, value in _VACUUM.items())
    for table in ("work", "arrivals"):
        op.execute(f"ALTER TABLE {table} SET ({options})")
    _replace(BEFORE, INDEXES)


def downgrade() -> None:
    _replace(INDEXES, BEFORE)
    for table in ("work", "arrivals"):
        op.execute(f"ALTER TABLE {table} RESET ({', '.join(_VACUUM)})")
    op.execute("ALTER TABLE arrivals DROP COLUMN IF EXISTS priority")
    op.execute("ALTER TABLE work DROP COLUMN IF EXISTS lane")
    op.execute("ALTER TABLE work DROP COLUMN IF EXISTS priority")


def _replace(old: dict[str, str], new: dict[str, str]) -> None:
    """Build the new indexes of `work` beside running work, then drop the old ones."""
    with concurrently():
        for name, definition in new.items():
            build(name, f"work {definition}")
        for name in old:
            drop(name)
