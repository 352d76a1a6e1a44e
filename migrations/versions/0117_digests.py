"""Daily digests and where they are sent, and when people joined chats and left them.

Revision: 0117
"""

from alembic import op

from migrations.policies import isolate_tenants

revision = "0117"
down_revision = "0115"
branch_labels = None
depends_on = None

_TABLES = """
CREATE TABLE digests (
    tenant_id text NOT NULL,
    id bigint GENERATED ALWAYS AS IDENTITY,
    chat_id text NOT NULL,
    -- the time of day, on this clock; none: the chat's
    daily text NOT NULL,
    time_zone text,
    url text NOT NULL,
    -- as it is: what is sent is signed with it
    secret text NOT NULL CHECK (secret <> ''),
    budget_tokens integer NOT NULL,
    -- the API key; none: that of the settings
    made_by bigint,
    created_at timestamptz NOT NULL DEFAULT now(),
    -- where the last one that arrived ended
    sent_until timestamptz NOT NULL DEFAULT now(),
    next_at timestamptz NOT NULL,
    last_error text,
    PRIMARY KEY (tenant_id, id),
    FOREIGN KEY (tenant_id, chat_id) REFERENCES chats ON DELETE CASCADE
);
CREATE INDEX digests_chat ON digests (tenant_id, chat_id);
-- the sweep looks for those that are due over all tenants
CREATE INDEX digests_next ON digests (next_at);
CREATE TABLE member_changes (
    tenant_id text NOT NULL,
    chat_id text NOT NULL,
    sender_id text NOT NULL,
    at timestamptz NOT NULL,
    joined boolean NOT NULL,
    PRIMARY KEY (tenant_id, chat_id, sender_id, at),
    FOREIGN KEY (tenant_id, chat_id) REFERENCES chats ON DELETE CASCADE
);
"""
_DUE = """
CREATE POLICY all_tenants ON digests TO backscroll_maintenance USING (true);
GRANT SELECT (tenant_id, id, next_at) ON digests TO backscroll_maintenance;
"""


def upgrade() -> None:
    op.get_bind().exec_driver_sql(_TABLES)
    for table in ("digests", "member_changes"):
        isolate_tenants(table)
    op.get_bind().exec_driver_sql(_DUE)


def downgrade() -> None:
    op.execute("DROP TABLE member_changes, digests")
