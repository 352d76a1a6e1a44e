"""The record of what was asked, shown and answered, behind row-level security.

Revision: 0007, after 0006
"""

from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # No foreign key on the chat: serving a context would wait for whoever has the chat locked. Forgetting a chat
    # deletes its rows, and none is written behind a tombstone.
    op.execute("""
        CREATE TABLE query_log (
            tenant_id text NOT NULL REFERENCES tenants ON DELETE CASCADE,
            context_id text COLLATE "C" NOT NULL,
            chat_id text NOT NULL,
            user_id text,
            agent_id text,
            session_key text,
            profile text NOT NULL,
            asked_at timestamptz NOT NULL,
            query text,
            shown jsonb NOT NULL,
            tokens jsonb NOT NULL,
            chars jsonb NOT NULL,
            used_tokens integer NOT NULL,
            budget integer NOT NULL,
            latency_ms real NOT NULL,
            degraded text[] NOT NULL,
            answer text,
            used jsonb,
            answered_at timestamptz,
            memory_id uuid,
            redacted_at timestamptz,
            PRIMARY KEY (tenant_id, context_id)
        )
    """)
    # forgetting looks through a chat's rows, pruning through the oldest
    op.execute("CREATE INDEX query_log_chat ON query_log (tenant_id, chat_id, asked_at)")
    op.execute("CREATE INDEX query_log_asked_at ON query_log (tenant_id, asked_at)")
    op.execute("ALTER TABLE query_log ENABLE ROW LEVEL SECURITY")
    op.execute("ALTER TABLE query_log FORCE ROW LEVEL SECURITY")
    op.execute(
        "CREATE POLICY one_tenant ON query_log TO backscroll_app "
        "USING (tenant_id = nullif(current_setting('app.tenant_id', true), ''))"
    )
    op.execute("GRANT SELECT, INSERT, UPDATE, DELETE ON query_log TO backscroll_app")
    op.execute("GRANT SELECT ON query_log TO backscroll_backup")


def downgrade() -> None:
    op.execute("DROP TABLE query_log")
