"""Tenants, chats, messages, sessions, memories and the work ledger, behind row-level security.

Revision: 0001, the first
"""

from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

# A stored generated column needs an immutable expression, so every configuration stands there literally.
LANGUAGES = (
    "simple arabic armenian basque catalan danish dutch english finnish french german greek hindi hungarian "
    "indonesian irish italian lithuanian nepali norwegian portuguese romanian russian serbian spanish swedish "
    "tamil turkish yiddish"
).split()


def _tsv(column: str) -> str:
    cases = " ".join(
        f"WHEN '{name}' THEN to_tsvector('pg_catalog.{name}'::regconfig, {column})" for name in LANGUAGES
    )
    return f"tsvector GENERATED ALWAYS AS (CASE language {cases} END) STORED"


LANGUAGE = "text NOT NULL DEFAULT 'english' CHECK (language IN ({}))".format(
    ", ".join(f"'{name}'" for name in LANGUAGES)
)

TABLES = [
    """
    CREATE TABLE tenants (
        tenant_id text PRIMARY KEY CHECK (tenant_id <> ''),
        settings jsonb NOT NULL DEFAULT '{}',
        created_at timestamptz NOT NULL DEFAULT now()
    )
    """,
    f"""
    CREATE TABLE chats (
        tenant_id text NOT NULL REFERENCES tenants ON DELETE CASCADE,
        chat_id text NOT NULL,
        platform text NOT NULL DEFAULT '',
        kind text NOT NULL DEFAULT 'group' CHECK (kind IN ('group', 'direct', 'thread')),
        title text NOT NULL DEFAULT '',
        agent_id text,
        time_zone text NOT NULL DEFAULT 'UTC',
        language {LANGUAGE},
        message_count bigint NOT NULL DEFAULT 0,
        lexeme_count bigint NOT NULL DEFAULT 0,
        settling_until timestamptz,
        memory boolean NOT NULL DEFAULT true,
        settings jsonb NOT NULL DEFAULT '{{}}',
        created_at timestamptz NOT NULL DEFAULT now(),
        PRIMARY KEY (tenant_id, chat_id)
    )
    """,
    f"""
    CREATE TABLE messages (
        tenant_id text NOT NULL,
        id bigint GENERATED ALWAYS AS IDENTITY,
        chat_id text NOT NULL,
        external_id text COLLATE "C" NOT NULL,
        session_key text NOT NULL DEFAULT '',
        sender_id text NOT NULL,
        sender_name text NOT NULL DEFAULT '',
        agent_id text,
        role text NOT NULL CHECK (role IN ('user', 'assistant', 'system', 'tool')),
        content text NOT NULL CHECK (octet_length(content) <= 65536),
        token_count integer NOT NULL,
        sent_at timestamptz NOT NULL,
        position integer NOT NULL DEFAULT 0,
        received_at timestamptz NOT NULL DEFAULT now(),
        edited_at timestamptz,
        revision integer NOT NULL DEFAULT 1,
        language {LANGUAGE},
        metadata jsonb NOT NULL DEFAULT '{{}}',
        tsv {_tsv("content")},
        PRIMARY KEY (tenant_id, id),
        UNIQUE (tenant_id, chat_id, external_id),
        FOREIGN KEY (tenant_id, chat_id) REFERENCES chats ON DELETE CASCADE
    )
    """,
    "CREATE INDEX messages_order ON messages (tenant_id, chat_id, session_key, sent_at, id)",
    "CREATE INDEX messages_tsv ON messages USING gin (tsv)",
    """
    CREATE TABLE arrivals (
        tenant_id text NOT NULL,
        chat_id text NOT NULL,
        message_id bigint NOT NULL,
        PRIMARY KEY (tenant_id, chat_id, message_id),
        FOREIGN KEY (tenant_id, message_id) REFERENCES messages ON DELETE CASCADE
    )
    """,
    "CREATE INDEX arrivals_message ON arrivals (tenant_id, message_id)",
    """
    CREATE TABLE session_closes (
        tenant_id text NOT NULL,
        chat_id text NOT NULL,
        session_key text NOT NULL CHECK (session_key <> ''),
        closed_at timestamptz NOT NULL,
        seen boolean NOT NULL DEFAULT false,
        PRIMARY KEY (tenant_id, chat_id, session_key, closed_at),
        FOREIGN KEY (tenant_id, chat_id) REFERENCES chats ON DELETE CASCADE
    )
    """,
    "CREATE INDEX session_closes_unseen ON session_closes (tenant_id, chat_id) WHERE NOT seen",
    f"""
    CREATE TABLE conversation_sessions (
        tenant_id text NOT NULL,
        id bigint GENERATED ALWAYS AS IDENTITY,
        chat_id text NOT NULL,
        session_key text NOT NULL DEFAULT '',
        started_at timestamptz NOT NULL,
        ended_at timestamptz NOT NULL,
        message_count integer NOT NULL,
        token_count bigint NOT NULL,
        participants text[] NOT NULL DEFAULT '{{}}',
        status text NOT NULL DEFAULT 'open'
            CHECK (status IN ('open', 'closed', 'summarized', 'skipped', 'failed', 'merged')),
        merged_into bigint,
        failure_reason text,
        revision bigint NOT NULL DEFAULT 1,
        summary_text text,
        topic_tags jsonb NOT NULL DEFAULT '[]',
        decisions jsonb NOT NULL DEFAULT '[]',
        open_questions jsonb NOT NULL DEFAULT '[]',
        action_items jsonb NOT NULL DEFAULT '[]',
        entities jsonb NOT NULL DEFAULT '[]',
        summary_model text,
        summary_version integer,
        summary_revision bigint,
        summary_message_count integer,
        summary_token_count bigint,
        summary_ended_at timestamptz,
        summary_created_at timestamptz,
        search_text text NOT NULL DEFAULT '',
        language {LANGUAGE},
        tsv {_tsv("search_text")},
        created_at timestamptz NOT NULL DEFAULT now(),
        PRIMARY KEY (tenant_id, id),
        CHECK (started_at <= ended_at),
        CHECK ((status = 'merged') = (merged_into IS NOT NULL)),
        FOREIGN KEY (tenant_id, chat_id) REFERENCES chats ON DELETE CASCADE,
        FOREIGN KEY (tenant_id, merged_into) REFERENCES conversation_sessions ON DELETE CASCADE
    )
    """,
    """
    CREATE UNIQUE INDEX conversation_sessions_start
        ON conversation_sessions (tenant_id, chat_id, session_key, started_at) WHERE status <> 'merged'
    """,
    "CREATE INDEX conversation_sessions_end ON conversation_sessions (tenant_id, chat_id, ended_at DESC)",
    "CREATE INDEX conversation_sessions_status ON conversation_sessions (tenant_id, chat_id, status)",
    # The sweep looks for open sessions over all tenants; there are few beside all the closed ones.
    "CREATE INDEX conversation_sessions_open ON conversation_sessions (ended_at) WHERE status = 'open'",
    "CREATE INDEX conversation_sessions_tsv ON conversation_sessions USING gin (tsv)",
    """
    CREATE INDEX conversation_sessions_merged ON conversation_sessions (tenant_id, merged_into)
        WHERE merged_into IS NOT NULL
    """,
    f"""
    CREATE TABLE memories (
        tenant_id text NOT NULL REFERENCES tenants ON DELETE CASCADE,
        id uuid NOT NULL,
        scope text NOT NULL CHECK (scope IN ('session', 'user', 'agent', 'organization')),
        type text NOT NULL CHECK (type IN ('fact', 'preference', 'summary', 'qa_turn', 'learning', 'state',
            'persona', 'scratchpad', 'document', 'manual')),
        chat_id text,
        session_id bigint,
        user_id text,
        agent_id text,
        content text NOT NULL CHECK (content <> '' AND octet_length(content) <= 65536),
        content_hash bytea NOT NULL,
        importance real NOT NULL DEFAULT 1.0 CHECK (importance BETWEEN 0 AND 10),
        access_count integer NOT NULL DEFAULT 0,
        last_accessed_at timestamptz,
        expires_at timestamptz,
        source text NOT NULL DEFAULT '',
        source_session_id bigint,
        source_message_ids bigint[] NOT NULL DEFAULT '{{}}',
        learned_in text,
        document_id text,
        chunk_index integer,
        superseded_by uuid,
        metadata jsonb NOT NULL DEFAULT '{{}}',
        language {LANGUAGE},
        tsv {_tsv("content")},
        created_at timestamptz NOT NULL DEFAULT now(),
        PRIMARY KEY (tenant_id, id),
        FOREIGN KEY (tenant_id, chat_id) REFERENCES chats ON DELETE CASCADE,
        FOREIGN KEY (tenant_id, session_id) REFERENCES conversation_sessions ON DELETE CASCADE,
        FOREIGN KEY (tenant_id, superseded_by) REFERENCES memories ON DELETE SET NULL (superseded_by),
        CHECK (CASE scope
            WHEN 'session' THEN session_id IS NOT NULL
            WHEN 'user' THEN user_id IS NOT NULL
            WHEN 'agent' THEN agent_id IS NOT NULL AND user_id IS NULL
            ELSE user_id IS NULL END)
    )
    """,
    """
    CREATE UNIQUE INDEX memories_content ON memories (tenant_id, scope, coalesce(session_id, 0),
        coalesce(user_id, ''), coalesce(agent_id, ''), coalesce(document_id, ''), content_hash)
    """,
    "CREATE INDEX memories_user ON memories (tenant_id, user_id, importance) WHERE scope = 'user'",
    "CREATE INDEX memories_session ON memories (tenant_id, session_id) WHERE session_id IS NOT NULL",
    "CREATE INDEX memories_chat ON memories (tenant_id, chat_id) WHERE chat_id IS NOT NULL",
    "CREATE INDEX memories_superseded ON memories (tenant_id, superseded_by) WHERE superseded_by IS NOT NULL",
    "CREATE INDEX memories_expiry ON memories (expires_at) WHERE expires_at IS NOT NULL",
    "CREATE INDEX memories_tsv ON memories USING gin (tsv)",
    "CREATE INDEX memories_metadata ON memories USING gin (metadata)",
    "CREATE SEQUENCE work_token",
    # fillfactor and an index on due rows alone keep "raise wanted" an update in place (HOT).
    """
    CREATE TABLE work (
        tenant_id text NOT NULL REFERENCES tenants ON DELETE CASCADE,
        kind text NOT NULL,
        key text NOT NULL,
        wanted bigint NOT NULL DEFAULT 1,
        claimed bigint,
        done bigint NOT NULL DEFAULT 0,
        attempts integer NOT NULL DEFAULT 0,
        due_at timestamptz,
        token bigint,
        owed_since timestamptz NOT NULL DEFAULT now(),
        last_error text,
        trace_id text,
        dead_at timestamptz,
        PRIMARY KEY (tenant_id, kind, key)
    ) WITH (fillfactor = 70)
    """,
    "CREATE INDEX work_due ON work (kind, tenant_id, due_at) WHERE due_at IS NOT NULL",
    "CREATE INDEX work_dead ON work (kind, tenant_id, dead_at) WHERE dead_at IS NOT NULL",
    """
    CREATE TABLE embedding_spaces (
        id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        name text NOT NULL UNIQUE,
        provider text NOT NULL,
        model text NOT NULL,
        dimensions integer NOT NULL CHECK (dimensions BETWEEN 1 AND 4000),
        query_prefix text NOT NULL DEFAULT '',
        document_prefix text NOT NULL DEFAULT '',
        status text NOT NULL DEFAULT 'building' CHECK (status IN ('building', 'active', 'retired')),
        created_at timestamptz NOT NULL DEFAULT now()
    )
    """,
    """
    CREATE UNIQUE INDEX embedding_spaces_one_active ON embedding_spaces ((true)) WHERE status = 'active'
    """,
    """
    CREATE TABLE backfills (
        tenant_id text NOT NULL REFERENCES tenants ON DELETE CASCADE,
        id bigint GENERATED ALWAYS AS IDENTITY,
        kind text NOT NULL CHECK (kind IN ('embed', 'summarize', 'sessionize')),
        filter jsonb NOT NULL DEFAULT '{}',
        space_id integer REFERENCES embedding_spaces,
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
    )
    """,
    # Many processes add to one day's figure; each takes a slot at random so that they seldom wait.
    """
    CREATE TABLE daily_counters (
        tenant_id text NOT NULL REFERENCES tenants ON DELETE CASCADE,
        day date NOT NULL,
        name text NOT NULL,
        slot smallint NOT NULL,
        value double precision NOT NULL,
        PRIMARY KEY (tenant_id, day, name, slot)
    ) WITH (fillfactor = 70)
    """,
]

TENANT_TABLES = (
    "tenants chats messages arrivals session_closes conversation_sessions memories work backfills daily_counters"
).split()
# What the role that serves all tenants at once may do: look at what is owed, and claim it. It reads no text.
MAINTENANCE = {
    "tenants": "SELECT",
    "arrivals": "SELECT",
    "backfills": "SELECT",
    "daily_counters": "SELECT",
    "work": "SELECT, UPDATE",
    "chats": "SELECT (tenant_id, chat_id, kind, platform, message_count, settling_until, memory)",
    "conversation_sessions": (
        "SELECT (tenant_id, id, chat_id, session_key, started_at, ended_at, message_count, status, revision, "
        "summary_revision, summary_version, summary_created_at, created_at)"
    ),
    "memories": "SELECT (tenant_id, id, scope, expires_at)",
}


def _wall(table: str) -> None:
    op.execute(f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY")
    op.execute(f"ALTER TABLE {table} FORCE ROW LEVEL SECURITY")
    op.execute(
        f"CREATE POLICY one_tenant ON {table} TO backscroll_app "
        "USING (tenant_id = nullif(current_setting('app.tenant_id', true), ''))"
    )
    op.execute(f"GRANT SELECT, INSERT, UPDATE, DELETE ON {table} TO backscroll_app")
    op.execute(f"GRANT SELECT ON {table} TO backscroll_backup")


def upgrade() -> None:
    for statement in TABLES:
        op.execute(statement)
    for table in TENANT_TABLES:
        _wall(table)
    for table, rights in MAINTENANCE.items():
        op.execute(f"CREATE POLICY all_tenants ON {table} TO backscroll_maintenance USING (true)")
        op.execute(f"GRANT {rights} ON {table} TO backscroll_maintenance")
    op.execute("GRANT USAGE ON SEQUENCE work_token TO backscroll_app, backscroll_maintenance")
    op.execute("GRANT SELECT ON SEQUENCE work_token TO backscroll_backup")
    # Spaces are the deployment's, not a tenant's: they hold the names of models, no data.
    op.execute(
        "GRANT SELECT ON embedding_spaces TO backscroll_app, backscroll_backup, backscroll_maintenance"
    )
    op.execute("GRANT SELECT ON alembic_version TO backscroll_app, backscroll_backup, backscroll_maintenance")


def downgrade() -> None:
    for table in reversed(["embedding_spaces", *TENANT_TABLES]):
        op.execute(f"DROP TABLE IF EXISTS {table} CASCADE")
    op.execute("DROP SEQUENCE work_token")
