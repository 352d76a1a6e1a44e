"""Weekly rollups: what a chat was about in a week, made of the summaries of its sessions.

Revision: 0007
"""

from alembic import op

from migrations.first_schema.columns import CHAT, LANGUAGE, tsv
from migrations.policies import isolate_tenants

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

TABLES = {
    "rollups": f"""(
        tenant_id text NOT NULL,
        id bigint GENERATED ALWAYS AS IDENTITY,
        chat_id text NOT NULL,
        -- its Monday in the chat's time zone
        week date NOT NULL,
        started_at timestamptz NOT NULL,
        ended_at timestamptz NOT NULL,
        -- the sessions that it is made of, and which of their summaries
        session_ids bigint[] NOT NULL,
        source_hash bytea NOT NULL,
        summary_text text NOT NULL,
        topic_tags jsonb NOT NULL,
        decisions jsonb NOT NULL,
        open_questions jsonb NOT NULL,
        action_items jsonb NOT NULL,
        entities jsonb NOT NULL,
        model text NOT NULL,
        version integer NOT NULL,
        search_text text NOT NULL,
        {LANGUAGE},
        {tsv("search_text")},
        created_at timestamptz NOT NULL DEFAULT now(),
        PRIMARY KEY (tenant_id, id),
        UNIQUE (tenant_id, chat_id, week),
        {CHAT}
    )""",
}


def upgrade() -> None:
    for table, definition in TABLES.items():
        op.execute(f"CREATE TABLE {table} {definition}")
        isolate_tenants(table)


def downgrade() -> None:
    for table in reversed(TABLES):
        op.execute(f"DROP TABLE {table}")
