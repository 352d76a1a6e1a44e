"""Tables and indexes of the first schema: jobs, backfills, counters, forgetting and the query log."""

from migrations.first_schema.columns import QUEUE, TENANT

TABLES = {
    # Its fillfactor and indexes keep "raise wanted" an update in place (HOT).
    # dead letters: payloads from the queue that could not be accepted
    "refused_payloads": """(
        tenant_id text NOT NULL REFERENCES tenants ON DELETE CASCADE,
        -- the first digits of a hash of the payload: the same one refused twice is one row
        key text COLLATE "C" NOT NULL,
        -- `{"args": […], "kwargs": {…}}` of the task: JSON in ASCII, as jsonb takes no NUL and no half surrogate pair
        payload text NOT NULL,
        error text NOT NULL,
        trace_id text,
        refused_at timestamptz NOT NULL DEFAULT now(),
        PRIMARY KEY (tenant_id, key)
    )""",
    # background jobs; schemas/kinds.py names their kinds
    "jobs": f"""(
        {TENANT},
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
    ) WITH (fillfactor = 70, {QUEUE})""",
    # Of the deployment, not of a tenant: names of models, no data.
    # a model's vectors; of the deployment, not of a tenant
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
    # Without a tenant's key the hashes of its suppression list cannot be tried out.
    # what a tenant's suppression list is hashed with
    "tenant_keys": """(
        tenant_id text PRIMARY KEY REFERENCES tenants ON DELETE CASCADE,
        key bytea NOT NULL CHECK (octet_length(key) = 32)
    )""",
    # what must not come back: see pipeline/people/suppression.py
    "suppression_list": f"""(
        {TENANT},
        -- keyed, of the kind and the name: who reads the table learns neither
        hash bytea NOT NULL,
        kind text NOT NULL CHECK (kind IN ('message', 'user', 'chat', 'tenant', 'unremembered', 'memory')),
        -- stops what was sent until then; none: for good
        until timestamptz,
        created_at timestamptz NOT NULL DEFAULT now(),
        PRIMARY KEY (tenant_id, hash)
    )""",
    # what was forgotten, and how much of it there was
    "forget_receipts": f"""(
        {TENANT},
        id bigint GENERATED ALWAYS AS IDENTITY,
        kind text NOT NULL CHECK (kind IN ('message', 'user', 'chat', 'tenant', 'removal', 'move')),
        -- what is to be forgotten, by name; gone when it is
        subject jsonb,
        subject_hash bytea NOT NULL,
        -- what was sent or came until then
        until timestamptz NOT NULL,
        counts jsonb NOT NULL DEFAULT '{{}}',
        created_at timestamptz NOT NULL DEFAULT now(),
        finished_at timestamptz,
        PRIMARY KEY (tenant_id, id),
        CHECK ((finished_at IS NULL) = (subject IS NOT NULL))
    )""",
    # No foreign key on the chat: serving a context would wait while the chat is locked. Forgetting a chat deletes its
    # rows, and none is written that is suppressed.
    # contexts served, and what was answered: see pipeline/context/query_log.py
    "query_log": f"""(
        {TENANT},
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
