"""Who has spoken in a chat before, noted from the messages that are there.

In transactions of its own, a batch of messages each, so that whoever speaks meanwhile waits for one batch at most: the
trigger of 0005 notes them too. Doing it again changes nothing.

Revision: 0006, after 0005
"""

from alembic import op
from sqlalchemy import text

from migrations.concurrently import concurrently

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

# The owner is behind the walls as well; this role, which nobody logs in as, looks over them.
MESSAGES = "SELECT (tenant_id, id, chat_id, sender_id, role) ON messages"
MEMBERS = "SELECT, INSERT ON chat_members"
BATCH = 5000
# Notes the speakers of the next batch; its last message, or nothing when there is none.
NOTE = text("""
    WITH batch AS MATERIALIZED (
        SELECT tenant_id, id, chat_id, sender_id, role FROM messages
        WHERE (tenant_id, id) > (:tenant, :id) ORDER BY tenant_id, id LIMIT :batch
    ), noted AS (
        INSERT INTO chat_members (tenant_id, chat_id, sender_id)
        SELECT DISTINCT tenant_id, chat_id, sender_id FROM batch WHERE role = 'user'
        ORDER BY tenant_id, chat_id, sender_id
        ON CONFLICT DO NOTHING
    )
    SELECT tenant_id AS tenant, id FROM batch ORDER BY tenant_id DESC, id DESC LIMIT 1
""")


def upgrade() -> None:
    op.execute(f"GRANT {MESSAGES} TO backscroll_search")
    op.execute(f"GRANT {MEMBERS} TO backscroll_search")
    with concurrently():
        op.execute("SET ROLE backscroll_search")
        try:
            last = {"tenant": "", "id": 0}
            while row := op.get_bind().execute(NOTE, {**last, "batch": BATCH}).one_or_none():
                last = row._asdict()
        finally:
            op.execute("RESET ROLE")
    op.execute(f"REVOKE {MEMBERS} FROM backscroll_search")
    op.execute(f"REVOKE {MESSAGES} FROM backscroll_search")


def downgrade() -> None:
    """Nothing: 0005 takes the table with it."""
