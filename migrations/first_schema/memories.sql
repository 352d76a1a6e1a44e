-- Memories: statements and documents, which messages say them, what supersedes them, and what they name.

CREATE TABLE memories (
    tenant_id text NOT NULL REFERENCES tenants ON DELETE CASCADE,
    id uuid NOT NULL,
    scope text NOT NULL CHECK (scope IN ('session', 'user', 'agent', 'organization')),
    type text NOT NULL CHECK (type IN ('fact', 'preference', 'summary', 'qa_turn', 'learning', 'state', 'persona',
        'scratchpad', 'document', 'manual', 'goal', 'event', 'relation', 'decision')),
    session_id bigint,
    user_id text,
    agent_id text,
    content text NOT NULL CHECK (content <> '' AND octet_length(content) <= 65536),
    content_hash bytea NOT NULL,
    -- 0 to 10
    importance real NOT NULL DEFAULT 1.0 CHECK (importance BETWEEN 0 AND 10),
    access_count integer NOT NULL DEFAULT 0,
    last_accessed_at timestamptz,
    expires_at timestamptz,
    source text NOT NULL DEFAULT '',
    source_session_id bigint,
    source_message_ids bigint[] NOT NULL DEFAULT '{}',
    -- the chat it was learned in: it is shown only to those who were there
    learned_in text,
    document_id text,
    chunk_index integer,
    metadata jsonb NOT NULL DEFAULT '{}',
    language text NOT NULL DEFAULT 'english',
    tsv tsvector,
    created_at timestamptz NOT NULL DEFAULT now(),
    -- what it says of whom
    subject text NOT NULL DEFAULT '',
    attribute text NOT NULL DEFAULT '',
    value text NOT NULL DEFAULT '',
    confidence real NOT NULL DEFAULT 1 CHECK (confidence BETWEEN 0 AND 1),
    -- by the clocks of those who talk; none: when it was written
    said_at timestamptz,
    holds_from timestamptz,
    holds_until timestamptz,
    learned_by text NOT NULL DEFAULT '',
    -- known to be wrong since then
    retracted_at timestamptz,
    -- other chats where it was said, too
    also_in text[] NOT NULL DEFAULT '{}',
    -- worded by hand since then: what is learned later does not change its wording
    edited_at timestamptz,
    -- it expires that long after it was last written or shown
    lives_for interval,
    -- the user whose it was before it was given to an agent, the organization or another user
    promoted_from text,
    PRIMARY KEY (tenant_id, id),
    FOREIGN KEY (tenant_id, session_id) REFERENCES conversation_sessions ON DELETE CASCADE,
    CHECK (CASE scope
        WHEN 'session' THEN session_id IS NOT NULL
        WHEN 'user' THEN user_id IS NOT NULL
        WHEN 'agent' THEN agent_id IS NOT NULL AND user_id IS NULL
        ELSE user_id IS NULL END)
);
CREATE INDEX memories_user ON memories (tenant_id, user_id, importance) WHERE scope = 'user';
CREATE INDEX memories_session ON memories (tenant_id, session_id) WHERE session_id IS NOT NULL;
CREATE INDEX memories_expiry ON memories (expires_at) WHERE expires_at IS NOT NULL;
CREATE UNIQUE INDEX memories_content ON memories (tenant_id, scope, coalesce(session_id, 0), coalesce(user_id, ''),
    coalesce(agent_id, ''), coalesce(document_id, ''), content_hash);
CREATE INDEX memories_shared ON memories (tenant_id, scope, agent_id)
    WHERE scope IN ('agent', 'organization') AND type <> 'document';
CREATE INDEX memories_promoted ON memories (tenant_id, promoted_from) WHERE promoted_from IS NOT NULL;

-- A row for each message that says it; those of one memory and session were learned together.
CREATE TABLE memory_evidence (
    tenant_id text NOT NULL,
    memory_id uuid NOT NULL,
    message_id bigint NOT NULL,
    session_id bigint NOT NULL,
    chat_id text NOT NULL,
    -- who says it
    sender_id text NOT NULL,
    said_at timestamptz NOT NULL,
    -- the memory as this session alone would word it
    content text NOT NULL,
    confidence real NOT NULL,
    learned_by text NOT NULL,
    -- what this session says of when it holds, so that what one chat says of it is not shown in another
    holds_from timestamptz,
    holds_until timestamptz,
    PRIMARY KEY (tenant_id, memory_id, message_id),
    FOREIGN KEY (tenant_id, memory_id) REFERENCES memories ON DELETE CASCADE
);
CREATE INDEX memory_evidence_message ON memory_evidence (tenant_id, message_id);
CREATE INDEX memory_evidence_session ON memory_evidence (tenant_id, session_id);
CREATE INDEX memory_evidence_chat ON memory_evidence (tenant_id, chat_id);
CREATE INDEX memory_evidence_sender ON memory_evidence (tenant_id, sender_id);

CREATE TABLE memory_supersessions (
    tenant_id text NOT NULL,
    memory_id uuid NOT NULL,
    superseded_by uuid NOT NULL CHECK (superseded_by <> memory_id),
    PRIMARY KEY (tenant_id, memory_id, superseded_by),
    FOREIGN KEY (tenant_id, memory_id) REFERENCES memories ON DELETE CASCADE,
    FOREIGN KEY (tenant_id, superseded_by) REFERENCES memories ON DELETE CASCADE
);
CREATE INDEX memory_supersessions_by ON memory_supersessions (tenant_id, superseded_by);

-- The entity graph: each memory names one subject, under one or two names, and what its attribute relates to that.
CREATE TABLE memory_entities (
    tenant_id text NOT NULL,
    memory_id uuid NOT NULL,
    -- the sender's id of somebody who writes; empty: nobody who does, who is known by the normalized name instead
    user_id text NOT NULL,
    entity text NOT NULL,
    -- a name of it, as it is written, normalized, and its first word where that may stand for it
    name text NOT NULL,
    alias text NOT NULL,
    short text NOT NULL,
    kind text NOT NULL CHECK (kind IN ('person', 'place', 'organization', 'thing', 'unknown')),
    -- what it is to the subject, such as `partner`; empty: it is the subject
    relation text NOT NULL,
    PRIMARY KEY (tenant_id, memory_id, user_id, entity, alias),
    FOREIGN KEY (tenant_id, memory_id) REFERENCES memories ON DELETE CASCADE
);
CREATE INDEX memory_entities_entity ON memory_entities (tenant_id, user_id, entity, memory_id);
CREATE INDEX memory_entities_alias ON memory_entities (tenant_id, alias);
CREATE INDEX memory_entities_short ON memory_entities (tenant_id, short) WHERE short <> '';
