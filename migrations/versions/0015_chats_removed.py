"""A receipt may be of a chat that was removed, to be imported again.

Revision: 0015, after 0014
"""

from collections.abc import Sequence

from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None

KINDS = ("message", "user", "chat", "tenant")


def _allow(kinds: Sequence[str]) -> None:
    named = ", ".join(f"'{kind}'" for kind in kinds)
    # one statement, so that it never stands without; there are few receipts
    op.execute(
        "ALTER TABLE forget_receipts DROP CONSTRAINT forget_receipts_kind_check, "
        f"ADD CONSTRAINT forget_receipts_kind_check CHECK (kind IN ({named}))"
    )


def upgrade() -> None:
    _allow((*KINDS, "removal"))


def downgrade() -> None:
    op.execute("DELETE FROM forget_receipts WHERE kind = 'removal'")
    _allow(KINDS)
