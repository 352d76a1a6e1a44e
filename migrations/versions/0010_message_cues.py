"""What a message is by its text only, read when it is placed: how far it asks, whether it names a time, and so on.

Revision: 0010
"""

from alembic import op

from migrations.first_schema.columns import LARGE
from migrations.policies import isolate_tenants

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

TABLES = {
    "message_cues": f"""(
        tenant_id text NOT NULL,
        message_id bigint NOT NULL,
        -- a reference to partitioned messages names the chat
        chat_id text NOT NULL,
        -- the share of the text that asks
        asks real NOT NULL,
        -- as `pipeline.text.message_cues` numbers them
        flags smallint NOT NULL,
        PRIMARY KEY (tenant_id, message_id),
        FOREIGN KEY (tenant_id, message_id) REFERENCES messages ON DELETE CASCADE
    ) WITH ({LARGE})""",
}


def upgrade() -> None:
    for table, definition in TABLES.items():
        op.execute(f"CREATE TABLE {table} {definition}")
        isolate_tenants(table)
    # whoever changes a text, also a process of the version before, which knows nothing of cues
    op.execute("""
        CREATE FUNCTION drop_cues() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            DELETE FROM public.message_cues WHERE tenant_id = NEW.tenant_id AND message_id = NEW.id;
            RETURN NULL;
        END $$
    """)
    op.execute("""
        CREATE TRIGGER drop_cues AFTER UPDATE OF content, language ON messages
        FOR EACH ROW EXECUTE FUNCTION drop_cues()
    """)


def downgrade() -> None:
    op.execute("DROP TRIGGER drop_cues ON messages")
    op.execute("DROP FUNCTION drop_cues")
    for table in reversed(TABLES):
        op.execute(f"DROP TABLE {table}")
