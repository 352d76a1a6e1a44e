"""Whose messages retention has removed from a session, and whose a memory was that others have now.

Revision: 0013
"""

from alembic import op

from migrations.concurrently import build, concurrently
from migrations.policies import isolate_tenants

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None

TABLES = {
    # As long as a session's messages are there, they say whose it is. Of what was pruned before this table was made, or
    # by a process of the version before, nothing is noted.
    "pruned_senders": """(
        tenant_id text NOT NULL,
        session_id bigint NOT NULL,
        sender_id text NOT NULL,
        PRIMARY KEY (tenant_id, sender_id, session_id),
        FOREIGN KEY (tenant_id, session_id) REFERENCES conversation_sessions ON DELETE CASCADE
    )""",
}
INDEXES = ["pruned_senders_session ON pruned_senders (tenant_id, session_id)"]
_PROMOTED = (
    "memories_promoted",
    "memories (tenant_id, promoted_from) WHERE promoted_from IS NOT NULL",
)


def upgrade() -> None:
    # the user whose it was before it was given to an agent, the organization or another user
    op.execute("ALTER TABLE memories ADD COLUMN IF NOT EXISTS promoted_from text")
    with concurrently():
        build(*_PROMOTED)
    for table, definition in TABLES.items():
        op.execute(f"CREATE TABLE {table} {definition}")
        isolate_tenants(table)
    for definition in INDEXES:
        op.execute(f"CREATE INDEX {definition}")


def downgrade() -> None:
    for table in reversed(TABLES):
        op.execute(f"DROP TABLE {table}")
    op.execute("ALTER TABLE memories DROP COLUMN promoted_from")
