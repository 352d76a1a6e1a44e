-- Background jobs, the payloads that could not be accepted, and backfills.

-- The number of a claim: a result is saved only under the newest.
CREATE SEQUENCE job_token;

-- Kinds are named in schemas/kinds.py. Fillfactor and indexes keep "raise wanted" an update in place (HOT).
CREATE TABLE jobs (
    tenant_id text NOT NULL REFERENCES tenants ON DELETE CASCADE,
    kind text NOT NULL,
    key text NOT NULL,
    -- counts the changes that ask for this job
    wanted bigint NOT NULL DEFAULT 1,
    -- what `wanted` was when the row was claimed; none: it is not claimed
    claimed bigint,
    attempts integer NOT NULL DEFAULT 0,
    -- when it may be claimed, or when the claim's lease ends; none: nothing is to be done
    due_at timestamptz,
    -- the newest claim's number; a result is saved only under it
    token bigint,
    -- since when it has been pending without a break
    pending_since timestamptz NOT NULL DEFAULT now(),
    last_error text,
    -- the id of the newest request that asked for it
    trace_id text,
    -- given up: a dead letter
    dead_at timestamptz,
    -- 0: live, 1: of an import or a backfill; the lower one is claimed first
    priority smallint NOT NULL DEFAULT 0,
    -- whose turn it is within a tenant: a hash of the chat, 0 where there is none
    lane integer NOT NULL DEFAULT 0,
    PRIMARY KEY (tenant_id, kind, key)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_insert_scale_factor = 0.01,
    autovacuum_analyze_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000, autovacuum_analyze_threshold = 1000,
    autovacuum_vacuum_insert_threshold = 10000);
-- What may be claimed is indexed apart from what is claimed; a row changes sides when it is claimed.
-- Whether anything is due, and the rows that have been due longest:
CREATE INDEX jobs_oldest ON jobs (kind, priority, due_at) WHERE due_at IS NOT NULL AND claimed IS NULL;
-- whose turn it is, tenant by tenant, and in each chat by chat:
CREATE INDEX jobs_turns ON jobs (kind, priority, tenant_id, lane, due_at) WHERE due_at IS NOT NULL AND claimed IS NULL;
-- claims whose lease ran out
CREATE INDEX jobs_claimed ON jobs (kind, due_at) WHERE claimed IS NOT NULL;
CREATE INDEX jobs_dead ON jobs (kind, tenant_id, dead_at) WHERE dead_at IS NOT NULL;

-- Dead letters: payloads from the queue that could not be accepted.
CREATE TABLE refused_payloads (
    tenant_id text NOT NULL REFERENCES tenants ON DELETE CASCADE,
    -- the first digits of a hash of the payload: the same one refused twice is one row
    key text COLLATE "C" NOT NULL,
    -- `{"args": […], "kwargs": {…}}` of the task: JSON in ASCII, as jsonb takes no NUL and no half surrogate pair
    payload text NOT NULL,
    error text NOT NULL,
    trace_id text,
    refused_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, key)
);

CREATE TABLE backfills (
    tenant_id text NOT NULL REFERENCES tenants ON DELETE CASCADE,
    id bigint GENERATED ALWAYS AS IDENTITY,
    kind text NOT NULL CHECK (kind IN ('embed', 'summarize', 'rollup', 'extract', 'sessionize', 'answers')),
    filter jsonb NOT NULL DEFAULT '{}',
    -- the last key seen: progress only
    cursor jsonb,
    batch_size integer NOT NULL DEFAULT 100,
    rate_per_second real,
    total bigint,
    seen bigint NOT NULL DEFAULT 0,
    raised bigint NOT NULL DEFAULT 0,
    state text NOT NULL DEFAULT 'running'
        CHECK (state IN ('running', 'paused', 'cancelled', 'completed', 'failed')),
    error text,
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now(),
    finished_at timestamptz,
    PRIMARY KEY (tenant_id, id)
);
