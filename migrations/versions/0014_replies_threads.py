"""Columns for the message that a message answers and for its thread.

Revision: 0014, after 0013
"""

from alembic import op

from migrations.concurrently import build, concurrently, drop

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None

COLUMNS = ("reply_to", "thread")
# erasing a message also erases its id from the messages that answer it
INDEXES = {"messages_answers": "messages (tenant_id, chat_id, reply_to) WHERE reply_to IS NOT NULL"}


def upgrade() -> None:
    for column in COLUMNS:
        # no default: no row is written anew
        op.execute(f'ALTER TABLE messages ADD COLUMN IF NOT EXISTS {column} text COLLATE "C"')
    with concurrently():
        for name, definition in INDEXES.items():
            build(name, definition)


def downgrade() -> None:
    with concurrently():
        for name in INDEXES:
            drop(name)
    for column in COLUMNS:
        op.execute(f"ALTER TABLE messages DROP COLUMN {column}")
