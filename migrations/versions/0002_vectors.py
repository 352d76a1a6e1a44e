"""The vector tables, when the pgvector extension is there; `db upgrade` adds them later when it appears.

Revision: 0002, after 0001
"""

from alembic import op
from sqlalchemy import text

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

# The embedding has no declared size: several spaces of several sizes lie in one table, each with an index
# of its own. PLAIN keeps it in the row: out of line (TOAST) a scan takes three times as long.
TABLES = {
    "message_vectors": """
        CREATE TABLE message_vectors (
            tenant_id text NOT NULL,
            message_id bigint NOT NULL,
            space_id integer NOT NULL REFERENCES embedding_spaces,
            chat_id text NOT NULL,
            sent_at timestamptz NOT NULL,
            content_hash bytea NOT NULL,
            embedding halfvec NOT NULL,
            PRIMARY KEY (tenant_id, message_id, space_id),
            FOREIGN KEY (tenant_id, message_id) REFERENCES messages ON DELETE CASCADE
        ) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.02,
            autovacuum_analyze_scale_factor = 0.02)""",
    "session_vectors": """
        CREATE TABLE session_vectors (
            tenant_id text NOT NULL,
            session_id bigint NOT NULL,
            space_id integer NOT NULL REFERENCES embedding_spaces,
            chat_id text NOT NULL,
            ended_at timestamptz NOT NULL,
            content_hash bytea NOT NULL,
            embedding halfvec NOT NULL,
            PRIMARY KEY (tenant_id, session_id, space_id),
            FOREIGN KEY (tenant_id, session_id) REFERENCES conversation_sessions ON DELETE CASCADE
        )""",
    "memory_vectors": """
        CREATE TABLE memory_vectors (
            tenant_id text NOT NULL,
            memory_id uuid NOT NULL,
            space_id integer NOT NULL REFERENCES embedding_spaces,
            scope text NOT NULL,
            content_hash bytea NOT NULL,
            embedding halfvec NOT NULL,
            PRIMARY KEY (tenant_id, memory_id, space_id),
            FOREIGN KEY (tenant_id, memory_id) REFERENCES memories ON DELETE CASCADE
        )""",
}
INDEXES = [
    "CREATE INDEX message_vectors_chat ON message_vectors (tenant_id, space_id, chat_id, sent_at)",
    # led by the hash, so that no scan of a space ever takes it for its own
    "CREATE INDEX message_vectors_content ON message_vectors (tenant_id, content_hash, space_id)",
    "CREATE INDEX session_vectors_chat ON session_vectors (tenant_id, space_id, chat_id, ended_at)",
]


def create_tables() -> None:
    """Make the vector tables with their walls; the extension must be there."""
    for table, statement in TABLES.items():
        op.execute(statement)
        op.execute(f"ALTER TABLE {table} ALTER COLUMN embedding SET STORAGE PLAIN")
        op.execute(f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY")
        op.execute(f"ALTER TABLE {table} FORCE ROW LEVEL SECURITY")
        op.execute(
            f"CREATE POLICY one_tenant ON {table} TO backscroll_app "
            "USING (tenant_id = nullif(current_setting('app.tenant_id', true), ''))"
        )
        op.execute(f"GRANT SELECT, INSERT, UPDATE, DELETE ON {table} TO backscroll_app")
        op.execute(f"GRANT SELECT ON {table} TO backscroll_backup")
    for statement in INDEXES:
        op.execute(statement)


def upgrade() -> None:
    if op.get_bind().scalar(text("SELECT 1 FROM pg_extension WHERE extname = 'vector'")):
        create_tables()


def downgrade() -> None:
    for table in TABLES:
        op.execute(f"DROP TABLE IF EXISTS {table}")
