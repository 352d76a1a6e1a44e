"""Who made an edit that waits for its message, and which members of a chat may delete what others wrote.

Revision: 0113
"""

from alembic import op

revision = "0113"
down_revision = "0112"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("""
        ALTER TABLE pending_changes ADD COLUMN sender_id text NOT NULL DEFAULT '',
            DROP CONSTRAINT pending_changes_pkey,
            ADD CONSTRAINT pending_changes_pkey PRIMARY KEY (tenant_id, chat_id, external_id, sender_id)
    """)
    op.execute("ALTER TABLE chat_members ADD COLUMN moderates boolean NOT NULL DEFAULT false")


def downgrade() -> None:
    op.execute("""
        DELETE FROM pending_changes old USING pending_changes new
        WHERE (old.tenant_id, old.chat_id, old.external_id) = (new.tenant_id, new.chat_id, new.external_id)
            AND (old.edited_at, old.sender_id) < (new.edited_at, new.sender_id)
    """)
    op.execute("""
        ALTER TABLE pending_changes DROP CONSTRAINT pending_changes_pkey, DROP COLUMN sender_id,
            ADD CONSTRAINT pending_changes_pkey PRIMARY KEY (tenant_id, chat_id, external_id)
    """)
    op.execute("ALTER TABLE chat_members DROP COLUMN moderates")
