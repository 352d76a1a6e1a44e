"""Placing finds a chat's next arrivals by an index; a session counts what has changed inside it.

Revision: 0013, after 0012
"""

from collections.abc import Mapping

from alembic import op

from migrations.concurrently import concurrently, drop

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None

# A message is in one chat, so that its id alone identifies its arrival, and one index less is written.
UP = {
    "arrivals_identity": "UNIQUE INDEX CONCURRENTLY arrivals_identity ON arrivals (tenant_id, message_id)",
    "arrivals_waiting": "INDEX CONCURRENTLY arrivals_waiting ON arrivals (tenant_id, chat_id, priority, message_id) "
    "WHERE quarantined_at IS NULL",
}
DOWN = {
    "arrivals_identity": "UNIQUE INDEX CONCURRENTLY arrivals_identity ON arrivals (tenant_id, chat_id, message_id)",
    "arrivals_message": "INDEX CONCURRENTLY arrivals_message ON arrivals (tenant_id, message_id)",
}


def upgrade() -> None:
    _build(UP)
    _identify()
    op.execute("DROP INDEX IF EXISTS arrivals_message")
    # a constant as default: no row is written anew
    op.execute("ALTER TABLE conversation_sessions ADD COLUMN inner_revision bigint NOT NULL DEFAULT 0")


def downgrade() -> None:
    _build(DOWN)
    _identify()
    op.execute("DROP INDEX IF EXISTS arrivals_waiting")
    op.execute("ALTER TABLE conversation_sessions DROP COLUMN inner_revision")


def _build(indexes: Mapping[str, str]) -> None:
    with concurrently():
        for name, definition in indexes.items():
            # one that an interrupted run left behind is not valid
            drop(name)
            op.execute(f"CREATE {definition}")


def _identify() -> None:
    """Make the new unique index the primary key, which takes its place and gets its name."""
    op.execute("ALTER TABLE arrivals DROP CONSTRAINT arrivals_pkey")
    op.execute("ALTER TABLE arrivals ADD CONSTRAINT arrivals_pkey PRIMARY KEY USING INDEX arrivals_identity")
