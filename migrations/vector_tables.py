"""The vector tables; `db upgrade` also creates them when pgvector is installed after the first migration."""

from alembic import op

from migrations.first_schema.columns import LARGE
from migrations.policies import isolate_tenants

# The embedding has no declared size: spaces of several sizes share one table, each with an index of its own.
# A text that is longer than its model reads has a row for each chunk, from 0 on.
_COLUMNS = """
    space_id integer NOT NULL REFERENCES embedding_spaces,
    chunk_index smallint NOT NULL DEFAULT 0,
    content_hash bytea NOT NULL,
    embedding halfvec NOT NULL"""
TABLES = {
    "message_vectors": f"""(
        tenant_id text NOT NULL,
        message_id bigint NOT NULL,
        chat_id text NOT NULL,
        sent_at timestamptz NOT NULL, {_COLUMNS},
        PRIMARY KEY (tenant_id, message_id, space_id, chunk_index),
        FOREIGN KEY (tenant_id, message_id) REFERENCES messages ON DELETE CASCADE
    ) WITH ({LARGE})""",
    "session_vectors": f"""(
        tenant_id text NOT NULL,
        session_id bigint NOT NULL,
        chat_id text NOT NULL, {_COLUMNS},
        PRIMARY KEY (tenant_id, session_id, space_id, chunk_index),
        FOREIGN KEY (tenant_id, session_id) REFERENCES conversation_sessions ON DELETE CASCADE
    )""",
    "memory_vectors": f"""(
        tenant_id text NOT NULL,
        memory_id uuid NOT NULL, {_COLUMNS},
        PRIMARY KEY (tenant_id, memory_id, space_id, chunk_index),
        FOREIGN KEY (tenant_id, memory_id) REFERENCES memories ON DELETE CASCADE
    )""",
}
INDEXES = [
    "message_vectors_chat ON message_vectors (tenant_id, space_id, chat_id, sent_at)",
    # led by the hash, so that no scan of a space ever takes it for its own
    "message_vectors_content ON message_vectors (tenant_id, content_hash, space_id)",
    "session_vectors_chat ON session_vectors (tenant_id, space_id, chat_id)",
]


def create() -> None:
    """Create the vector tables, isolated by tenant; pgvector must be installed."""
    for table, definition in TABLES.items():
        op.execute(f"CREATE TABLE {table} {definition}")
        # PLAIN keeps it in the row: out of line (TOAST) a scan takes three times as long
        op.execute(f"ALTER TABLE {table} ALTER COLUMN embedding SET STORAGE PLAIN")
        isolate_tenants(table)
    for definition in INDEXES:
        op.execute(f"CREATE INDEX {definition}")
