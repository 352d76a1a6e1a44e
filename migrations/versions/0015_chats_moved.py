"""A chat may lead to another one, which has all its messages; a receipt may be of that, or of a chat's removal.

Revision: 0015, after 0014
"""

from collections.abc import Sequence

from alembic import op

from migrations.concurrently import build, concurrently, drop

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None

KINDS = ("message", "user", "chat", "tenant")
# whoever deletes a chat looks for those that lead to it
INDEXES = {"chats_moved": "chats (tenant_id, moved_to) WHERE moved_to IS NOT NULL"}


def _allow(kinds: Sequence[str]) -> None:
    named = ", ".join(f"'{kind}'" for kind in kinds)
    # one statement, so that it never stands without; there are few receipts
    op.execute(
        "ALTER TABLE forget_receipts DROP CONSTRAINT forget_receipts_kind_check, "
        f"ADD CONSTRAINT forget_receipts_kind_check CHECK (kind IN ({named}))"
    )


def upgrade() -> None:
    op.execute("ALTER TABLE chats ADD COLUMN IF NOT EXISTS moved_to text")
    op.execute("ALTER TABLE chats DROP CONSTRAINT IF EXISTS chats_tenant_id_moved_to_fkey")
    # nothing leads anywhere yet: there is nothing to look at
    op.execute(
        "ALTER TABLE chats ADD CONSTRAINT chats_tenant_id_moved_to_fkey FOREIGN KEY (tenant_id, moved_to) "
        "REFERENCES chats ON DELETE CASCADE"
    )
    _allow((*KINDS, "removal", "move"))
    with concurrently():
        for name, definition in INDEXES.items():
            build(name, definition)


def downgrade() -> None:
    with concurrently():
        for name in INDEXES:
            drop(name)
    op.execute("DELETE FROM forget_receipts WHERE kind IN ('removal', 'move')")
    _allow(KINDS)
    op.execute("ALTER TABLE chats DROP COLUMN moved_to")
