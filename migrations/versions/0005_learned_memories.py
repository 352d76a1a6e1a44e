"""Learned memories: what they say of whom and since when, which messages say it, and what supersedes them.

Revision: 0005
"""

from alembic import op

from migrations.concurrently import build, concurrently, drop
from migrations.policies import isolate_tenants

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

MEMORY = "FOREIGN KEY (tenant_id, memory_id) REFERENCES memories ON DELETE CASCADE"
TABLES = {
    # a row for each message that says it; those of one memory and session were learned together
    "memory_evidence": f"""(
        tenant_id text NOT NULL,
        memory_id uuid NOT NULL,
        message_id bigint NOT NULL,
        session_id bigint NOT NULL,
        chat_id text NOT NULL,
        -- who says it
        sender_id text NOT NULL,
        said_at timestamptz NOT NULL,
        -- the memory as this session alone would word it
        content text NOT NULL,
        confidence real NOT NULL,
        learned_by text NOT NULL,
        PRIMARY KEY (tenant_id, memory_id, message_id),
        {MEMORY}
    )""",
    "memory_supersessions": f"""(
        tenant_id text NOT NULL,
        memory_id uuid NOT NULL,
        superseded_by uuid NOT NULL CHECK (superseded_by <> memory_id),
        PRIMARY KEY (tenant_id, memory_id, superseded_by),
        {MEMORY},
        FOREIGN KEY (tenant_id, superseded_by) REFERENCES memories ON DELETE CASCADE
    )""",
}
INDEXES = [
    "memory_evidence_message ON memory_evidence (tenant_id, message_id)",
    "memory_evidence_session ON memory_evidence (tenant_id, session_id)",
    "memory_evidence_chat ON memory_evidence (tenant_id, chat_id)",
    "memory_evidence_sender ON memory_evidence (tenant_id, sender_id)",
    "memory_supersessions_by ON memory_supersessions (tenant_id, superseded_by)",
]
_COLUMNS = {
    "subject": "text NOT NULL DEFAULT ''",
    "attribute": "text NOT NULL DEFAULT ''",
    "value": "text NOT NULL DEFAULT ''",
    "confidence": "real NOT NULL DEFAULT 1 CHECK (confidence BETWEEN 0 AND 1)",
    # by the clocks of those who talk; none: when it was written
    "said_at": "timestamptz",
    "holds_from": "timestamptz",
    "holds_until": "timestamptz",
    "learned_by": "text NOT NULL DEFAULT ''",
    # known to be wrong since then
    "retracted_at": "timestamptz",
    # other chats where it was said, too
    "also_in": "text[] NOT NULL DEFAULT '{}'",
}
# what a session's facts were learned from; none: they were not
_OF_SESSIONS = {"facts_revision": "bigint", "facts_model": "text"}
_TYPES = "fact preference summary qa_turn learning state persona scratchpad document manual".split()
_LEARNED_TYPES = "goal event relation decision".split()
_CONSTRAINT = "memories_type_check"
_SHARED = (
    "memories_shared",
    "memories (tenant_id, scope, agent_id) WHERE scope IN ('agent', 'organization') AND type <> 'document'",
)


def upgrade() -> None:
    with concurrently():
        build(*_SHARED)
    for column, definition in _COLUMNS.items():
        op.execute(f"ALTER TABLE memories ADD COLUMN IF NOT EXISTS {column} {definition}")
    for column, definition in _OF_SESSIONS.items():
        op.execute(f"ALTER TABLE conversation_sessions ADD COLUMN IF NOT EXISTS {column} {definition}")
    _permit([*_TYPES, *_LEARNED_TYPES])
    for table, definition in TABLES.items():
        op.execute(f"CREATE TABLE {table} {definition}")
        isolate_tenants(table)
    for definition in INDEXES:
        op.execute(f"CREATE INDEX {definition}")


def downgrade() -> None:
    for table in reversed(TABLES):
        op.execute(f"DROP TABLE {table}")
    # row-level security hides the rows from the owner, too
    op.execute("ALTER TABLE memories NO FORCE ROW LEVEL SECURITY")
    learned = ", ".join(f"'{each}'" for each in _LEARNED_TYPES)
    op.execute(f"UPDATE memories SET type = 'fact' WHERE type IN ({learned})")
    op.execute("ALTER TABLE memories FORCE ROW LEVEL SECURITY")
    _permit(_TYPES)
    for column in _COLUMNS:
        op.execute(f"ALTER TABLE memories DROP COLUMN {column}")
    for column in _OF_SESSIONS:
        op.execute(f"ALTER TABLE conversation_sessions DROP COLUMN {column}")
    with concurrently():
        drop(_SHARED[0])


def _permit(types: list[str]) -> None:
    permitted = ", ".join(f"'{each}'" for each in types)
    op.execute(f"""
        ALTER TABLE memories DROP CONSTRAINT IF EXISTS {_CONSTRAINT},
            ADD CONSTRAINT {_CONSTRAINT} CHECK (type IN ({permitted})) NOT VALID
    """)
    op.execute(f"ALTER TABLE memories VALIDATE CONSTRAINT {_CONSTRAINT}")
