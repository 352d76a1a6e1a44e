"""Calls to language models: the ledger of what they cost, answers kept for a retry, and limits of providers.

Revision: 0002, after 0001
"""

from alembic import op

from migrations.first_schema.columns import CHAT, TENANT
from migrations.policies import isolate_tenants

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

OF_TENANTS = {
    # every call, failed ones too; it holds no text
    "llm_calls": f"""(
        {TENANT},
        id bigint GENERATED ALWAYS AS IDENTITY,
        -- none: the chat was forgotten
        chat_id text,
        purpose text NOT NULL,
        model text NOT NULL,
        provider text NOT NULL,
        -- pending: being made, or its worker died; reused: a kept answer, for which no call was made
        outcome text NOT NULL DEFAULT 'pending'
            CHECK (outcome IN ('pending', 'answered', 'reused', 'unavailable', 'failed', 'rejected')),
        -- of a pending call these are estimates, which the budget counts
        input_tokens integer NOT NULL,
        output_tokens integer NOT NULL,
        -- in US dollars; none: the model's price is not known
        cost double precision,
        latency_ms real,
        -- none: the chat was forgotten
        prompt_hash bytea,
        called_at timestamptz NOT NULL DEFAULT now(),
        PRIMARY KEY (tenant_id, id)
    )""",
    # what was paid for and not yet saved by the job that asked for it; its answers quote messages
    "llm_answers": f"""(
        tenant_id text NOT NULL,
        model text NOT NULL,
        prompt_hash bytea NOT NULL,
        chat_id text NOT NULL,
        -- the job that asked for it
        kind text NOT NULL,
        key text NOT NULL,
        answer text NOT NULL,
        truncated boolean NOT NULL,
        input_tokens integer NOT NULL,
        output_tokens integer NOT NULL,
        kept_at timestamptz NOT NULL DEFAULT now(),
        PRIMARY KEY (tenant_id, model, prompt_hash),
        {CHAT}
    )""",
}
# Of the deployment: all workers share a provider's limits. They hold no data of tenants.
OF_THE_DEPLOYMENT = {
    # whether a provider may be asked now; see pipeline/llm/limits.py
    "llm_providers": """(
        provider text PRIMARY KEY,
        -- in a row
        failures integer NOT NULL DEFAULT 0,
        -- how often in a row, and since when, calls were stopped; until then, and until a probe must have ended
        stops integer NOT NULL DEFAULT 0,
        stopped_at timestamptz,
        stopped_until timestamptz,
        probe_until timestamptz,
        -- when the requests and tokens so far are used up at the permitted rate
        requests_until timestamptz,
        tokens_until timestamptz
    ) WITH (fillfactor = 50)""",
    # calls that are being made
    "llm_slots": """(
        id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        provider text NOT NULL REFERENCES llm_providers ON DELETE CASCADE,
        -- a killed worker's slot is free then
        expires_at timestamptz NOT NULL
    )""",
}
TABLES = OF_TENANTS | OF_THE_DEPLOYMENT
INDEXES = [
    "llm_calls_called_at ON llm_calls (tenant_id, called_at)",
    "llm_calls_chat ON llm_calls (tenant_id, chat_id) WHERE chat_id IS NOT NULL",
    "llm_answers_chat ON llm_answers (tenant_id, chat_id)",
    "llm_slots_provider ON llm_slots (provider)",
]
# what calls cost over all tenants, and not in which chats
_READ_BY_MAINTENANCE = (
    "tenant_id, purpose, model, provider, outcome, input_tokens, output_tokens, cost, latency_ms, called_at"
)


def upgrade() -> None:
    for table, definition in TABLES.items():
        op.execute(f"CREATE TABLE {table} {definition}")
    for definition in INDEXES:
        op.execute(f"CREATE INDEX {definition}")
    for table in OF_TENANTS:
        isolate_tenants(table)
    op.execute("CREATE POLICY all_tenants ON llm_calls TO backscroll_maintenance USING (true)")
    op.execute(f"GRANT SELECT ({_READ_BY_MAINTENANCE}) ON llm_calls TO backscroll_maintenance")
    for table in OF_THE_DEPLOYMENT:
        op.execute(f"GRANT SELECT, INSERT, UPDATE, DELETE ON {table} TO backscroll_app")
        op.execute(f"GRANT SELECT ON {table} TO backscroll_backup")


def downgrade() -> None:
    for table in reversed(TABLES):
        op.execute(f"DROP TABLE {table}")
