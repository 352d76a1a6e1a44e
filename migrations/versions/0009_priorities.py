"""Work has a priority and a lane: live messages go before imports and backfills, and no chat before all others.

Revision: 0009, after 0008
"""

from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # constants as defaults: no row is written anew
    op.execute("ALTER TABLE work ADD COLUMN priority smallint NOT NULL DEFAULT 0")
    op.execute("ALTER TABLE work ADD COLUMN lane integer NOT NULL DEFAULT 0")
    op.execute("ALTER TABLE arrivals ADD COLUMN priority smallint NOT NULL DEFAULT 0")


def downgrade() -> None:
    op.execute("ALTER TABLE arrivals DROP COLUMN priority")
    op.execute("ALTER TABLE work DROP COLUMN lane")
    op.execute("ALTER TABLE work DROP COLUMN priority")
