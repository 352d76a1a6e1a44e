"""Early edits, tombstones and the receipts of forgetting, behind row-level security.

Revision: 0004, after 0003
"""

from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

TABLES = {
    # Edits that came before their message.
    "pending_changes": """
        CREATE TABLE pending_changes (
            tenant_id text NOT NULL,
            chat_id text NOT NULL,
            external_id text COLLATE "C" NOT NULL,
            content text NOT NULL CHECK (octet_length(content) <= 65536),
            token_count integer NOT NULL,
            edited_at timestamptz NOT NULL,
            received_at timestamptz NOT NULL DEFAULT now(),
            PRIMARY KEY (tenant_id, chat_id, external_id),
            FOREIGN KEY (tenant_id, chat_id) REFERENCES chats ON DELETE CASCADE
        )""",
    # The key of a tenant's tombstones: without it their hashes cannot be tried out.
    "tenant_keys": """
        CREATE TABLE tenant_keys (
            tenant_id text PRIMARY KEY REFERENCES tenants ON DELETE CASCADE,
            key bytea NOT NULL CHECK (octet_length(key) = 32)
        )""",
    "tombstones": """
        CREATE TABLE tombstones (
            tenant_id text NOT NULL REFERENCES tenants ON DELETE CASCADE,
            hash bytea NOT NULL,
            kind text NOT NULL CHECK (kind IN ('message', 'user', 'chat', 'tenant', 'unremembered')),
            until timestamptz,
            created_at timestamptz NOT NULL DEFAULT now(),
            PRIMARY KEY (tenant_id, hash)
        )""",
    "forget_receipts": """
        CREATE TABLE forget_receipts (
            tenant_id text NOT NULL REFERENCES tenants ON DELETE CASCADE,
            id bigint GENERATED ALWAYS AS IDENTITY,
            kind text NOT NULL CHECK (kind IN ('message', 'user', 'chat', 'tenant')),
            subject jsonb,
            subject_hash bytea NOT NULL,
            until timestamptz NOT NULL,
            counts jsonb NOT NULL DEFAULT '{}',
            created_at timestamptz NOT NULL DEFAULT now(),
            finished_at timestamptz,
            PRIMARY KEY (tenant_id, id),
            CHECK ((finished_at IS NULL) = (subject IS NOT NULL))
        )""",
}


def upgrade() -> None:
    for table, statement in TABLES.items():
        op.execute(statement)
        op.execute(f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY")
        op.execute(f"ALTER TABLE {table} FORCE ROW LEVEL SECURITY")
        op.execute(
            f"CREATE POLICY one_tenant ON {table} TO backscroll_app "
            "USING (tenant_id = nullif(current_setting('app.tenant_id', true), ''))"
        )
        op.execute(f"GRANT SELECT, INSERT, UPDATE, DELETE ON {table} TO backscroll_app")
        op.execute(f"GRANT SELECT ON {table} TO backscroll_backup")


def downgrade() -> None:
    for table in reversed(TABLES):
        op.execute(f"DROP TABLE {table}")
