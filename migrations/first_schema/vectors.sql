-- The vectors of messages, sessions and memories, where pgvector is installed. The embedding has no declared size:
-- spaces of several sizes share one table, each with an index of its own. A text that is longer than its model reads
-- has a row for each chunk, from 0 on.

CREATE TABLE message_vectors (
    tenant_id text NOT NULL,
    message_id bigint NOT NULL,
    chat_id text NOT NULL,
    sent_at timestamptz NOT NULL,
    space_id integer NOT NULL REFERENCES embedding_spaces,
    chunk_index smallint NOT NULL DEFAULT 0,
    content_hash bytea NOT NULL,
    -- PLAIN keeps it in the row: out of line (TOAST) a scan takes three times as long
    embedding halfvec STORAGE PLAIN NOT NULL,
    PRIMARY KEY (tenant_id, message_id, space_id, chunk_index),
    FOREIGN KEY (tenant_id, message_id) REFERENCES messages ON DELETE CASCADE
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.02,
    autovacuum_analyze_scale_factor = 0.02);
CREATE INDEX message_vectors_chat ON message_vectors (tenant_id, space_id, chat_id, sent_at);
-- led by the hash, so that no scan of a space ever takes it for its own
CREATE INDEX message_vectors_content ON message_vectors (tenant_id, content_hash, space_id);

CREATE TABLE session_vectors (
    tenant_id text NOT NULL,
    session_id bigint NOT NULL,
    chat_id text NOT NULL,
    space_id integer NOT NULL REFERENCES embedding_spaces,
    chunk_index smallint NOT NULL DEFAULT 0,
    content_hash bytea NOT NULL,
    embedding halfvec STORAGE PLAIN NOT NULL,
    PRIMARY KEY (tenant_id, session_id, space_id, chunk_index),
    FOREIGN KEY (tenant_id, session_id) REFERENCES conversation_sessions ON DELETE CASCADE
);
CREATE INDEX session_vectors_chat ON session_vectors (tenant_id, space_id, chat_id);

CREATE TABLE memory_vectors (
    tenant_id text NOT NULL,
    memory_id uuid NOT NULL,
    space_id integer NOT NULL REFERENCES embedding_spaces,
    chunk_index smallint NOT NULL DEFAULT 0,
    content_hash bytea NOT NULL,
    embedding halfvec STORAGE PLAIN NOT NULL,
    PRIMARY KEY (tenant_id, memory_id, space_id, chunk_index),
    FOREIGN KEY (tenant_id, memory_id) REFERENCES memories ON DELETE CASCADE
);
