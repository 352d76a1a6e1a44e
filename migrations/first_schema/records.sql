-- What was asked and counted, and what is not to come back.

-- Contexts served, and what was answered. No foreign key on the chat: serving a context would wait while the chat is
-- locked. Forgetting a chat deletes its rows, and none is written that is suppressed.
CREATE TABLE query_log (
    tenant_id text NOT NULL REFERENCES tenants ON DELETE CASCADE,
    context_id text COLLATE "C" NOT NULL,
    chat_id text NOT NULL,
    user_id text,
    agent_id text,
    session_key text,
    profile text NOT NULL,
    -- when the question came
    asked_at timestamptz NOT NULL,
    -- none: redacted
    query text,
    -- the block that each item stood in, by `message:ID`, `session:ID`, `memory:ID`, `document:ID`
    shown jsonb NOT NULL,
    -- by source: recent, message, session, memory, document
    tokens jsonb NOT NULL,
    chars jsonb NOT NULL,
    used_tokens integer NOT NULL,
    budget integer NOT NULL,
    latency_ms real NOT NULL,
    -- what could not be done, by its first word
    degraded text[] NOT NULL,
    -- as the bot reported it
    answer text,
    -- the items that the bot says it used
    used jsonb,
    answered_at timestamptz,
    -- the memory that question and answer were kept as
    memory_id uuid,
    -- since when something of it was forgotten
    redacted_at timestamptz,
    PRIMARY KEY (tenant_id, context_id)
);
-- forgetting looks through a chat's rows, pruning through the oldest
CREATE INDEX query_log_chat ON query_log (tenant_id, chat_id, asked_at);
CREATE INDEX query_log_asked_at ON query_log (tenant_id, asked_at);

-- Many processes add to one day's figure; each takes a random slot, so that they seldom wait.
CREATE TABLE daily_counters (
    tenant_id text NOT NULL REFERENCES tenants ON DELETE CASCADE,
    day date NOT NULL,
    name text NOT NULL,
    slot smallint NOT NULL,
    value double precision NOT NULL,
    PRIMARY KEY (tenant_id, day, name, slot)
) WITH (fillfactor = 70);

-- What a tenant's suppression list is hashed with: without it the hashes cannot be tried out.
CREATE TABLE tenant_keys (
    tenant_id text PRIMARY KEY REFERENCES tenants ON DELETE CASCADE,
    key bytea NOT NULL CHECK (octet_length(key) = 32)
);

-- What must not come back: see pipeline/people/suppression.py.
CREATE TABLE suppression_list (
    tenant_id text NOT NULL REFERENCES tenants ON DELETE CASCADE,
    -- keyed, of the kind and the name: who reads the table learns neither
    hash bytea NOT NULL,
    kind text NOT NULL CHECK (kind IN ('message', 'user', 'chat', 'tenant', 'unremembered', 'memory')),
    -- stops what was sent until then; none: for good
    until timestamptz,
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, hash)
);

-- What was forgotten, and how much of it there was.
CREATE TABLE forget_receipts (
    tenant_id text NOT NULL REFERENCES tenants ON DELETE CASCADE,
    id bigint GENERATED ALWAYS AS IDENTITY,
    kind text NOT NULL CHECK (kind IN ('message', 'user', 'chat', 'tenant', 'removal', 'move')),
    -- what is to be forgotten, by name; gone when it is
    subject jsonb,
    subject_hash bytea NOT NULL,
    -- what was sent or came until then
    until timestamptz NOT NULL,
    counts jsonb NOT NULL DEFAULT '{}',
    created_at timestamptz NOT NULL DEFAULT now(),
    finished_at timestamptz,
    PRIMARY KEY (tenant_id, id),
    CHECK ((finished_at IS NULL) = (subject IS NOT NULL))
);
