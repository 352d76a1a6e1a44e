"""A memory is of one chat: its hash is of its words there, and one that two chats state is divided.

Revision: 0110
"""

from alembic import op

revision = "0110"
down_revision = "0109"
branch_labels = None
depends_on = None

# as `pipeline.text.duplicates.fingerprint`; of what no longer is its words alone, it stays unlike any other
_OF_ITS_CHAT = """
    UPDATE memories SET content_hash = substr(sha256(content_hash || convert_to(learned_in, 'UTF8')), 1, 16)
    WHERE learned_in IS NOT NULL
"""
# the next revision of their owner's memories divides them
_DIVIDE = """
    INSERT INTO jobs (tenant_id, kind, key, due_at)
    SELECT tenant_id, 'extract', 'memory:' || id, now() FROM memories WHERE learned_by <> '' AND also_in <> '{}'
    ON CONFLICT (tenant_id, kind, key) DO UPDATE SET wanted = jobs.wanted + 1, due_at = now(), dead_at = NULL
"""


def upgrade() -> None:
    op.execute(_OF_ITS_CHAT)
    op.execute(_DIVIDE)


def downgrade() -> None:
    """Leave them: an earlier version reads them, and only finds no twin by their hash."""
