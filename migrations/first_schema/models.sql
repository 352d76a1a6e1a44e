-- Embedding spaces, and calls to language models: what they cost, answers kept for a retry, and limits of providers.

-- A model's vectors; of the deployment, not of a tenant: names of models, no data.
CREATE TABLE embedding_spaces (
    id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text NOT NULL UNIQUE,
    provider text NOT NULL,
    model text NOT NULL,
    dimensions integer NOT NULL CHECK (dimensions BETWEEN 1 AND 4000),
    query_prefix text NOT NULL DEFAULT '',
    document_prefix text NOT NULL DEFAULT '',
    status text NOT NULL DEFAULT 'building' CHECK (status IN ('building', 'active', 'standby', 'retired')),
    created_at timestamptz NOT NULL DEFAULT now(),
    -- when it was made the active one last
    activated_at timestamptz,
    -- what its cosines stand for, as the worker that embeds into it measured
    calibration jsonb
);
CREATE UNIQUE INDEX embedding_spaces_one_active ON embedding_spaces ((true)) WHERE status = 'active';

-- Every call, failed ones too; it holds no text.
CREATE TABLE llm_calls (
    tenant_id text NOT NULL REFERENCES tenants ON DELETE CASCADE,
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
);
CREATE INDEX llm_calls_called_at ON llm_calls (tenant_id, called_at);
CREATE INDEX llm_calls_chat ON llm_calls (tenant_id, chat_id) WHERE chat_id IS NOT NULL;

-- What was paid for and not yet saved by the job that asked for it; its answers quote messages.
CREATE TABLE llm_answers (
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
    FOREIGN KEY (tenant_id, chat_id) REFERENCES chats ON DELETE CASCADE
);
CREATE INDEX llm_answers_chat ON llm_answers (tenant_id, chat_id);

-- Whether a provider may be asked now. All workers share its limits, so this is of the deployment.
CREATE TABLE llm_providers (
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
) WITH (fillfactor = 50);

-- Calls that are being made.
CREATE TABLE llm_slots (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    provider text NOT NULL REFERENCES llm_providers ON DELETE CASCADE,
    -- a killed worker's slot is free then
    expires_at timestamptz NOT NULL
);
CREATE INDEX llm_slots_provider ON llm_slots (provider);
