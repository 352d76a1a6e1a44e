-- Sessions with their summaries, and the weeks that they are summed up by.

CREATE TABLE conversation_sessions (
    tenant_id text NOT NULL,
    id bigint GENERATED ALWAYS AS IDENTITY,
    chat_id text NOT NULL,
    session_key text NOT NULL DEFAULT '',
    started_at timestamptz NOT NULL,
    ended_at timestamptz NOT NULL,
    message_count integer NOT NULL,
    token_count bigint NOT NULL,
    -- the names of who spoke, sorted, so that they do not depend on the order of arrival
    participants text[] NOT NULL DEFAULT '{}',
    status text NOT NULL DEFAULT 'open'
        CHECK (status IN ('open', 'closed', 'summarized', 'skipped', 'failed', 'merged')),
    merged_into bigint,
    -- since when it is a pointer to another
    merged_at timestamptz,
    failure_reason text,
    -- raised by every change of its messages
    revision bigint NOT NULL DEFAULT 1,
    -- raised when sessions are joined or cut, or a text is edited: a summary of what was read before is not saved
    inner_revision bigint NOT NULL DEFAULT 0,
    summary_text text,
    topic_tags jsonb NOT NULL DEFAULT '[]',
    decisions jsonb NOT NULL DEFAULT '[]',
    open_questions jsonb NOT NULL DEFAULT '[]',
    action_items jsonb NOT NULL DEFAULT '[]',
    entities jsonb NOT NULL DEFAULT '[]',
    summary_model text,
    summary_version integer,
    -- what the session was when the stored summary was made
    summary_revision bigint,
    summary_message_count integer,
    summary_token_count bigint,
    summary_ended_at timestamptz,
    summary_created_at timestamptz,
    search_text text NOT NULL DEFAULT '',
    language text NOT NULL DEFAULT 'english',
    tsv tsvector,
    created_at timestamptz NOT NULL DEFAULT now(),
    -- what its facts were learned from; none: they were not
    facts_revision bigint,
    facts_model text,
    PRIMARY KEY (tenant_id, id),
    CHECK (started_at <= ended_at),
    CHECK ((status = 'merged') = (merged_into IS NOT NULL)),
    FOREIGN KEY (tenant_id, chat_id) REFERENCES chats ON DELETE CASCADE,
    FOREIGN KEY (tenant_id, merged_into) REFERENCES conversation_sessions ON DELETE CASCADE
);
CREATE INDEX conversation_sessions_end ON conversation_sessions (tenant_id, chat_id, ended_at DESC);
CREATE INDEX conversation_sessions_status ON conversation_sessions (tenant_id, chat_id, status);
-- the sweep looks for open sessions over all tenants; there are few beside all the closed ones
CREATE INDEX conversation_sessions_open ON conversation_sessions (ended_at) WHERE status = 'open';
CREATE INDEX conversation_sessions_merged ON conversation_sessions (tenant_id, merged_into)
    WHERE merged_into IS NOT NULL;
CREATE UNIQUE INDEX conversation_sessions_start ON conversation_sessions (tenant_id, chat_id, session_key, started_at)
    WHERE status <> 'merged';

-- Where an agent closed a session that it had named, in sender time.
CREATE TABLE session_closes (
    tenant_id text NOT NULL,
    chat_id text NOT NULL,
    session_key text NOT NULL CHECK (session_key <> ''),
    closed_at timestamptz NOT NULL,
    -- whether placing has looked if a session must be cut there
    seen boolean NOT NULL DEFAULT false,
    PRIMARY KEY (tenant_id, chat_id, session_key, closed_at),
    FOREIGN KEY (tenant_id, chat_id) REFERENCES chats ON DELETE CASCADE
);
CREATE INDEX session_closes_unseen ON session_closes (tenant_id, chat_id) WHERE NOT seen;

-- Whose messages retention has removed from a session. As long as its messages are there, they say whose it is.
CREATE TABLE pruned_senders (
    tenant_id text NOT NULL,
    session_id bigint NOT NULL,
    sender_id text NOT NULL,
    PRIMARY KEY (tenant_id, sender_id, session_id),
    FOREIGN KEY (tenant_id, session_id) REFERENCES conversation_sessions ON DELETE CASCADE
);
CREATE INDEX pruned_senders_session ON pruned_senders (tenant_id, session_id);

-- What a chat was about in a week, made of the summaries of its sessions.
CREATE TABLE rollups (
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
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, id),
    UNIQUE (tenant_id, chat_id, week),
    FOREIGN KEY (tenant_id, chat_id) REFERENCES chats ON DELETE CASCADE
);
