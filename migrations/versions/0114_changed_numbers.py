"""Numbers that somebody else may have by now, when the platform showed a link, and chats being emptied.

Revision: 0114
"""

from alembic import op

from migrations.policies import isolate_tenants

revision = "0114"
down_revision = "0113"
branch_labels = None
depends_on = None

_KINDS = "'message', 'user', 'chat', 'tenant', 'unremembered', 'memory', 'key', 'left'"


def upgrade() -> None:
    op.execute("""
        CREATE TABLE changed_numbers (
            tenant_id text NOT NULL REFERENCES tenants ON DELETE CASCADE,
            id text NOT NULL,
            until timestamptz NOT NULL,
            new_id text NOT NULL,
            PRIMARY KEY (tenant_id, id, until),
            CHECK (id <> new_id)
        )
    """)
    isolate_tenants("changed_numbers")
    op.execute("CREATE INDEX changed_numbers_new ON changed_numbers (tenant_id, new_id)")
    op.execute("ALTER TABLE chats ADD COLUMN emptying boolean NOT NULL DEFAULT false")
    op.execute("ALTER TABLE user_senders ADD COLUMN shown_at timestamptz")
    _allow(f"{_KINDS}, 'apart'")


def downgrade() -> None:
    op.execute("DELETE FROM suppression_list WHERE kind = 'apart'")
    _allow(_KINDS)
    op.execute("ALTER TABLE user_senders DROP COLUMN shown_at")
    op.execute("ALTER TABLE chats DROP COLUMN emptying")
    op.execute("DROP TABLE changed_numbers")


def _allow(kinds: str) -> None:
    op.execute(f"""
        ALTER TABLE suppression_list DROP CONSTRAINT suppression_list_kind_check,
            ADD CONSTRAINT suppression_list_kind_check CHECK (kind IN ({kinds}))
    """)
