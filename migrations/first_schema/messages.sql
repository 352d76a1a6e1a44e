-- Chats, who is in them, and what is said there.

CREATE TABLE chats (
    tenant_id text NOT NULL REFERENCES tenants ON DELETE CASCADE,
    chat_id text NOT NULL,
    platform text NOT NULL DEFAULT '',
    kind text NOT NULL DEFAULT 'group' CHECK (kind IN ('group', 'direct', 'thread')),
    title text NOT NULL DEFAULT '',
    time_zone text NOT NULL DEFAULT 'UTC',
    language text NOT NULL DEFAULT 'english',
    -- how many messages are placed, and their distinct lexemes added up: BM25's N and average length
    message_count bigint NOT NULL DEFAULT 0,
    lexeme_count bigint NOT NULL DEFAULT 0,
    -- until then a history is being imported: summaries wait
    settling_until timestamptz,
    -- off: messages are kept, and nothing is made of them
    memory boolean NOT NULL DEFAULT true,
    created_at timestamptz NOT NULL DEFAULT now(),
    -- the chat that has its messages now, and is meant where this one is named
    moved_to text,
    -- who says what its language is; none: nobody
    language_by text CHECK (language_by IN ('declared', 'detected')),
    -- how many messages it had when its language was detected last
    language_at bigint NOT NULL DEFAULT 0,
    -- up to which message, by external id, its words are indexed anew; none: all are in its language
    words_after text COLLATE "C",
    PRIMARY KEY (tenant_id, chat_id),
    FOREIGN KEY (tenant_id, moved_to) REFERENCES chats ON DELETE CASCADE
);
CREATE INDEX chats_moved ON chats (tenant_id, moved_to) WHERE moved_to IS NOT NULL;

-- Who is in a chat: a trigger on `messages` notes everybody who speaks there but bots.
CREATE TABLE chat_members (
    tenant_id text NOT NULL,
    chat_id text NOT NULL,
    -- empty: somebody whose name is not kept
    sender_id text NOT NULL,
    PRIMARY KEY (tenant_id, chat_id, sender_id),
    FOREIGN KEY (tenant_id, chat_id) REFERENCES chats ON DELETE CASCADE
);
CREATE INDEX chat_members_sender ON chat_members (tenant_id, sender_id, chat_id);

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
    language text NOT NULL DEFAULT 'english',
    metadata jsonb NOT NULL DEFAULT '{}',
    tsv tsvector,
    -- the external id of the message of this chat that this one answers, which need not be there
    reply_to text COLLATE "C",
    -- a conversation of its own within the chat, such as a forum's topic
    thread text COLLATE "C",
    UNIQUE (tenant_id, chat_id, external_id),
    FOREIGN KEY (tenant_id, chat_id) REFERENCES chats ON DELETE CASCADE
);
CREATE INDEX messages_order ON messages (tenant_id, chat_id, session_key, sent_at, id);
CREATE INDEX messages_newest ON messages (tenant_id, chat_id, sent_at);
-- erasing a message also erases its id from the messages that answer it
CREATE INDEX messages_answers ON messages (tenant_id, chat_id, reply_to) WHERE reply_to IS NOT NULL;
-- forgetting and export look for a person's messages and for the chats that they spoke in
CREATE INDEX messages_sender ON messages (tenant_id, sender_id, chat_id);
-- Last: before the first ANALYZE the indexes of a table tie, and the planner takes the newest. By any other the foreign
-- key of an arrival would read all messages of the tenant.
ALTER TABLE messages ADD PRIMARY KEY (tenant_id, id);

-- Messages that are not in a session yet. A message is in one chat: its id alone identifies its arrival, and one index
-- less is written.
CREATE TABLE arrivals (
    tenant_id text NOT NULL,
    chat_id text NOT NULL,
    message_id bigint NOT NULL,
    -- placing fails because of it: it is set aside until an operator releases it, with the reason and the request
    quarantined_at timestamptz,
    error text,
    trace_id text,
    -- 0: live, 1: of an import; the lower one is placed and embedded first
    priority smallint NOT NULL DEFAULT 0,
    PRIMARY KEY (tenant_id, message_id),
    FOREIGN KEY (tenant_id, message_id) REFERENCES messages ON DELETE CASCADE
);
CREATE INDEX arrivals_waiting ON arrivals (tenant_id, chat_id, priority, message_id) WHERE quarantined_at IS NULL;

-- Edits that came before their message.
CREATE TABLE pending_changes (
    tenant_id text NOT NULL,
    chat_id text NOT NULL,
    external_id text COLLATE "C" NOT NULL,
    content text NOT NULL CHECK (octet_length(content) <= 65536),
    token_count integer NOT NULL,
    edited_at timestamptz NOT NULL,
    received_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, chat_id, external_id),
    FOREIGN KEY (tenant_id, chat_id) REFERENCES chats ON DELETE CASCADE
);

-- What a message is by its text only, read when it is placed.
CREATE TABLE message_cues (
    tenant_id text NOT NULL,
    message_id bigint NOT NULL,
    -- a reference to partitioned messages names the chat
    chat_id text NOT NULL,
    -- the share of the text that asks
    asks real NOT NULL,
    -- as `pipeline.text.message_cues` numbers them
    flags smallint NOT NULL,
    PRIMARY KEY (tenant_id, message_id),
    FOREIGN KEY (tenant_id, message_id) REFERENCES messages ON DELETE CASCADE
);

-- By default a fifth of a table changes before it is vacuumed, and a tenth before it is analyzed: of a hundred million
-- messages that is a day's work at once, and of a queue it is millions of dead rows.
ALTER TABLE messages SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.02,
    autovacuum_analyze_scale_factor = 0.02);
ALTER TABLE message_cues SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.02,
    autovacuum_analyze_scale_factor = 0.02);
ALTER TABLE arrivals SET (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_insert_scale_factor = 0.01,
    autovacuum_analyze_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000, autovacuum_analyze_threshold = 1000,
    autovacuum_vacuum_insert_threshold = 10000);

-- Whoever speaks in a chat is a member of it. A trigger, so that this holds for every stored message; sorted, so that
-- two of them do not deadlock.
CREATE FUNCTION note_speakers() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO public.chat_members (tenant_id, chat_id, sender_id)
    SELECT DISTINCT tenant_id, chat_id, sender_id FROM stored WHERE role = 'user'
    ORDER BY tenant_id, chat_id, sender_id
    ON CONFLICT DO NOTHING;
    RETURN NULL;
END $$;
CREATE TRIGGER note_speakers AFTER INSERT ON messages REFERENCING NEW TABLE AS stored
    FOR EACH STATEMENT EXECUTE FUNCTION note_speakers();

-- The cues of a text go with it, whoever changes it.
CREATE FUNCTION drop_cues() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM public.message_cues WHERE tenant_id = NEW.tenant_id AND message_id = NEW.id;
    RETURN NULL;
END $$;
CREATE TRIGGER drop_cues AFTER UPDATE OF content, language ON messages
    FOR EACH ROW EXECUTE FUNCTION drop_cues();
