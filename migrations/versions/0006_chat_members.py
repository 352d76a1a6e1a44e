"""Who has spoken in a chat before, noted from the messages that are there.

In a transaction of its own, so that messages are stored meanwhile: the trigger of 0005 notes whoever speaks.

Revision: 0006, after 0005
"""

from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # The owner is behind the walls as well; this role, which nobody logs in as, looks over them.
    op.execute("GRANT SELECT (tenant_id, chat_id, sender_id, role) ON messages TO backscroll_search")
    op.execute("GRANT SELECT, INSERT ON chat_members TO backscroll_search")
    op.execute("SET LOCAL ROLE backscroll_search")
    op.execute("""
        INSERT INTO chat_members (tenant_id, chat_id, sender_id)
        SELECT DISTINCT tenant_id, chat_id, sender_id FROM messages WHERE role = 'user'
        ORDER BY tenant_id, chat_id, sender_id
        ON CONFLICT DO NOTHING
    """)
    op.execute("RESET ROLE")
    op.execute("REVOKE ALL ON chat_members FROM backscroll_search")
    op.execute("REVOKE SELECT (tenant_id, chat_id, sender_id, role) ON messages FROM backscroll_search")


def downgrade() -> None:
    """Nothing: 0005 takes the table with it."""
