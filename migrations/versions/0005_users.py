"""Users and their senders, and who is in a chat, behind row-level security.

Revision: 0005, after 0004
"""

from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

TABLES = {
    "users": """
        CREATE TABLE users (
            tenant_id text NOT NULL REFERENCES tenants ON DELETE CASCADE,
            user_id text NOT NULL CHECK (user_id <> ''),
            created_at timestamptz NOT NULL DEFAULT now(),
            PRIMARY KEY (tenant_id, user_id)
        )""",
    # A sender that stands here for no user is a user of its own, by its own id.
    "user_senders": """
        CREATE TABLE user_senders (
            tenant_id text NOT NULL,
            sender_id text NOT NULL CHECK (sender_id <> ''),
            user_id text NOT NULL CHECK (user_id <> sender_id),
            linked_at timestamptz NOT NULL DEFAULT now(),
            PRIMARY KEY (tenant_id, sender_id),
            FOREIGN KEY (tenant_id, user_id) REFERENCES users ON DELETE CASCADE
        )""",
    # The empty sender is somebody whose name is not kept.
    "chat_members": """
        CREATE TABLE chat_members (
            tenant_id text NOT NULL,
            chat_id text NOT NULL,
            sender_id text NOT NULL,
            PRIMARY KEY (tenant_id, chat_id, sender_id),
            FOREIGN KEY (tenant_id, chat_id) REFERENCES chats ON DELETE CASCADE
        )""",
}
INDEXES = [
    "CREATE INDEX user_senders_user ON user_senders (tenant_id, user_id)",
    "CREATE INDEX chat_members_sender ON chat_members (tenant_id, sender_id, chat_id)",
]
# Whoever speaks is there. A trigger, so that this holds for every message that is stored, also by the programs
# that are still of an earlier version while this migration goes by. Sorted, so that two of them do not deadlock.
NOTE_SPEAKERS = """
    CREATE FUNCTION note_speakers() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        INSERT INTO public.chat_members (tenant_id, chat_id, sender_id)
        SELECT DISTINCT tenant_id, chat_id, sender_id FROM stored WHERE role = 'user'
        ORDER BY tenant_id, chat_id, sender_id
        ON CONFLICT DO NOTHING;
        RETURN NULL;
    END $$
"""
TRIGGER = """
    CREATE TRIGGER note_speakers AFTER INSERT ON messages REFERENCING NEW TABLE AS stored
    FOR EACH STATEMENT EXECUTE FUNCTION note_speakers()
"""
KINDS = "'message', 'user', 'chat', 'tenant', 'unremembered'"


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
    for statement in [*INDEXES, NOTE_SPEAKERS, TRIGGER]:
        op.execute(statement)
    # memories have tombstones, too
    op.execute(f"""
        ALTER TABLE tombstones DROP CONSTRAINT tombstones_kind_check, ADD CONSTRAINT tombstones_kind_check
            CHECK (kind IN ({KINDS}, 'memory'))
    """)


def downgrade() -> None:
    # the rows of the newer kind stay: they do no harm
    op.execute(f"""
        ALTER TABLE tombstones DROP CONSTRAINT tombstones_kind_check, ADD CONSTRAINT tombstones_kind_check
            CHECK (kind IN ({KINDS})) NOT VALID
    """)
    op.execute("DROP TRIGGER note_speakers ON messages")
    op.execute("DROP FUNCTION note_speakers")
    for table in reversed(TABLES):
        op.execute(f"DROP TABLE {table}")
