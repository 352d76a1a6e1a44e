"""Tables and indexes of the first schema: jobs, backfills, counters, forgetting and the query log."""

from migrations.first_schema.columns import QUEUE, TENANT

TABLES = {
    # Its fillfactor and indexes keep "raise wanted" an update in place (HOT).
    "jobs": f"""(
        {TENANT},
        kind text NOT NULL,
        key text NOT NULL,
        wanted bigint NOT NULL DEFAULT 1,
        claimed bigint,
        attempts integer NOT NULL DEFAULT 0,
        due_at timestamptz,
        token bigint,
        pending_since timestamptz NOT NULL DEFAULT now(),
        last_error text,
        trace_id text,
        dead_at timestamptz,
        priority smallint NOT NULL DEFAULT 0,
        lane integer NOT NULL DEFAULT 0,
        PRIMARY KEY (tenant_id, kind, key)
    ) WITH (fillfactor = 70, {QUEUE})""",
    # Of the deployment, not of a tenant: names of models, no data.
    "embedding_spaces": """(
        id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        name text NOT NULL UNIQUE,
        provider text NOT NULL,
        model text NOT NULL,
        dimensions integer NOT NULL CHECK (dimensions BETWEEN 1 AND 4000),
        query_prefix text NOT NULL DEFAULT '',
        document_prefix text NOT NULL DEFAULT '',
        status text NOT NULL DEFAULT 'building' CHECK (status IN ('building', 'active', 'retired')),
        created_at timestamptz NOT NULL DEFAULT now()
    )""",
    "backfills": f"""(
        {TENANT},
        id bigint GENERATED ALWAYS AS IDENTITY,
        kind text NOT NULL CHECK (kind IN ('embed', 'summarize', 'sessionize')),
        filter jsonb NOT NULL DEFAULT '{{}}',
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
    )""",
    # Many processes add to one day's figure; each takes a random slot, so that they seldom wait.
    "daily_counters": f"""(
        {TENANT},
        day date NOT NULL,
        name text NOT NULL,
        slot smallint NOT NULL,
        value double precision NOT NULL,
        PRIMARY KEY (tenant_id, day, name, slot)
    ) WITH (fillfactor = 70)""",
    # Without a tenant's key the hashes of its tombstones cannot be tried out.
    "tenant_keys": """(
        tenant_id text PRIMARY KEY REFERENCES tenants ON DELETE CASCADE,
        key bytea NOT NULL CHECK (octet_length(key) = 32)
    )""",
    "tombstones": f"""(
        {TENANT},
        hash bytea NOT NULL,
        kind text NOT NULL CHECK (kind IN ('message', 'user', 'chat', 'tenant', 'unremembered', 'memory')),
        until timestamptz,
        created_at timestamptz NOT NULL DEFAULT now(),
        PRIMARY KEY (tenant_id, hash)
    )""",
    "forget_receipts": f"""(
        {TENANT},
        id bigint GENERATED ALWAYS AS IDENTITY,
        kind text NOT NULL CHECK (kind IN ('message', 'user', 'chat', 'tenant', 'removal', 'move')),
        subject jsonb,
        subject_hash bytea NOT NULL,
        until timestamptz NOT NULL,
        counts jsonb NOT NULL DEFAULT '{{}}',
        created_at timestamptz NOT NULL DEFAULT now(),
        finished_at timestamptz,
        PRIMARY KEY (tenant_id, id),
        CHECK ((finished_at IS NULL) = (subject IS NOT NULL))
    )""",
    # No foreign key on the chat: serving a context would wait while the chat is locked. Forgetting a chat deletes its
    # rows, and none is written behind a tombstone.
    "query_log": f"""(
        {TENANT},
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
    )""",
}
# What may be claimed is indexed apart from what is claimed; a row changes sides when it is claimed.
_FREE = "WHERE due_at IS NOT NULL AND claimed IS NULL"
INDEXES = [
    # whether anything is due, and the rows that have been due longest
    f"jobs_oldest ON jobs (kind, priority, due_at) {_FREE}",
    # whose turn it is: tenant by tenant, and in each chat by chat
    f"jobs_turns ON jobs (kind, priority, tenant_id, lane, due_at) {_FREE}",
    # claims whose lease ran out
    "jobs_claimed ON jobs (kind, due_at) WHERE claimed IS NOT NULL",
    "jobs_dead ON jobs (kind, tenant_id, dead_at) WHERE dead_at IS NOT NULL",
    # forgetting looks through a chat's rows, pruning through the oldest
    "query_log_chat ON query_log (tenant_id, chat_id, asked_at)",
    "query_log_asked_at ON query_log (tenant_id, asked_at)",
]
UNIQUE_INDEXES = ["embedding_spaces_one_active ON embedding_spaces ((true)) WHERE status = 'active'"]
