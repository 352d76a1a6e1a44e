"""Tables and indexes of the first schema: chats, messages, sessions, people and memories."""

from migrations.first_schema.columns import CHAT, LANGUAGE, LARGE, QUEUE, TENANT, tsv

TABLES = {
    "tenants": """(
        tenant_id text PRIMARY KEY CHECK (tenant_id <> ''),
        settings jsonb NOT NULL DEFAULT '{}',
        created_at timestamptz NOT NULL DEFAULT now()
    )""",
    "chats": f"""(
        {TENANT},
        chat_id text NOT NULL,
        platform text NOT NULL DEFAULT '',
        kind text NOT NULL DEFAULT 'group' CHECK (kind IN ('group', 'direct', 'thread')),
        title text NOT NULL DEFAULT '',
        time_zone text NOT NULL DEFAULT 'UTC',
        {LANGUAGE},
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
        PRIMARY KEY (tenant_id, chat_id),
        FOREIGN KEY (tenant_id, moved_to) REFERENCES chats ON DELETE CASCADE
    )""",
    # who is in a chat: a trigger on `messages` notes everybody who speaks there but bots
    "chat_members": f"""(
        tenant_id text NOT NULL,
        chat_id text NOT NULL,
        -- empty: somebody whose name is not kept
        sender_id text NOT NULL,
        PRIMARY KEY (tenant_id, chat_id, sender_id),
        {CHAT}
    )""",
    "messages": f"""(
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
        {LANGUAGE},
        metadata jsonb NOT NULL DEFAULT '{{}}',
        {tsv("content")},
        -- the external id of the message of this chat that this one answers, which need not be there
        reply_to text COLLATE "C",
        -- a conversation of its own within the chat, such as a forum's topic
        thread text COLLATE "C",
        UNIQUE (tenant_id, chat_id, external_id),
        {CHAT}
    ) WITH ({LARGE})""",
    # A message is in one chat: its id alone identifies its arrival, and one index less is written.
    "arrivals": f"""(
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
    ) WITH ({QUEUE})""",
    # edits that came before their message
    "pending_changes": f"""(
        tenant_id text NOT NULL,
        chat_id text NOT NULL,
        external_id text COLLATE "C" NOT NULL,
        content text NOT NULL CHECK (octet_length(content) <= 65536),
        token_count integer NOT NULL,
        edited_at timestamptz NOT NULL,
        received_at timestamptz NOT NULL DEFAULT now(),
        PRIMARY KEY (tenant_id, chat_id, external_id),
        {CHAT}
    )""",
    # where an agent closed a session that it had named, in sender time
    "session_closes": f"""(
        tenant_id text NOT NULL,
        chat_id text NOT NULL,
        session_key text NOT NULL CHECK (session_key <> ''),
        closed_at timestamptz NOT NULL,
        -- whether placing has looked if a session must be cut there
        seen boolean NOT NULL DEFAULT false,
        PRIMARY KEY (tenant_id, chat_id, session_key, closed_at),
        {CHAT}
    )""",
    "conversation_sessions": f"""(
        tenant_id text NOT NULL,
        id bigint GENERATED ALWAYS AS IDENTITY,
        chat_id text NOT NULL,
        session_key text NOT NULL DEFAULT '',
        started_at timestamptz NOT NULL,
        ended_at timestamptz NOT NULL,
        message_count integer NOT NULL,
        token_count bigint NOT NULL,
        -- the names of who spoke, sorted, so that they do not depend on the order of arrival
        participants text[] NOT NULL DEFAULT '{{}}',
        status text NOT NULL DEFAULT 'open'
            CHECK (status IN ('open', 'closed', 'summarized', 'skipped', 'failed', 'merged')),
        merged_into bigint,
        -- since when it is a pointer to another; none: from before that was noted
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
        {LANGUAGE},
        {tsv("search_text")},
        created_at timestamptz NOT NULL DEFAULT now(),
        PRIMARY KEY (tenant_id, id),
        CHECK (started_at <= ended_at),
        CHECK ((status = 'merged') = (merged_into IS NOT NULL)),
        {CHAT},
        FOREIGN KEY (tenant_id, merged_into) REFERENCES conversation_sessions ON DELETE CASCADE
    )""",
    # people; a sender that is linked to nobody is a user of its own, by its own id
    "users": f"""(
        {TENANT},
        user_id text NOT NULL CHECK (user_id <> ''),
        created_at timestamptz NOT NULL DEFAULT now(),
        PRIMARY KEY (tenant_id, user_id)
    )""",
    # senders, and users that were merged into others; a `user_id` is never linked itself
    "user_senders": """(
        tenant_id text NOT NULL,
        sender_id text NOT NULL CHECK (sender_id <> ''),
        user_id text NOT NULL CHECK (user_id <> sender_id),
        linked_at timestamptz NOT NULL DEFAULT now(),
        PRIMARY KEY (tenant_id, sender_id),
        FOREIGN KEY (tenant_id, user_id) REFERENCES users ON DELETE CASCADE
    )""",
    "memories": f"""(
        {TENANT},
        id uuid NOT NULL,
        scope text NOT NULL CHECK (scope IN ('session', 'user', 'agent', 'organization')),
        type text NOT NULL CHECK (type IN ('fact', 'preference', 'summary', 'qa_turn', 'learning', 'state',
            'persona', 'scratchpad', 'document', 'manual')),
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
        source_message_ids bigint[] NOT NULL DEFAULT '{{}}',
        -- the chat it was learned in: it is shown only to those who were there
        learned_in text,
        document_id text,
        chunk_index integer,
        metadata jsonb NOT NULL DEFAULT '{{}}',
        {LANGUAGE},
        {tsv("content")},
        created_at timestamptz NOT NULL DEFAULT now(),
        PRIMARY KEY (tenant_id, id),
        FOREIGN KEY (tenant_id, session_id) REFERENCES conversation_sessions ON DELETE CASCADE,
        CHECK (CASE scope
            WHEN 'session' THEN session_id IS NOT NULL
            WHEN 'user' THEN user_id IS NOT NULL
            WHEN 'agent' THEN agent_id IS NOT NULL AND user_id IS NULL
            ELSE user_id IS NULL END)
    )""",
}
INDEXES = [
    "chats_moved ON chats (tenant_id, moved_to) WHERE moved_to IS NOT NULL",
    "chat_members_sender ON chat_members (tenant_id, sender_id, chat_id)",
    "messages_order ON messages (tenant_id, chat_id, session_key, sent_at, id)",
    "messages_newest ON messages (tenant_id, chat_id, sent_at)",
    # erasing a message also erases its id from the messages that answer it
    "messages_answers ON messages (tenant_id, chat_id, reply_to) WHERE reply_to IS NOT NULL",
    # forgetting and export look for a person's messages and for the chats that they spoke in
    "messages_sender ON messages (tenant_id, sender_id, chat_id)",
    "arrivals_waiting ON arrivals (tenant_id, chat_id, priority, message_id) WHERE quarantined_at IS NULL",
    "session_closes_unseen ON session_closes (tenant_id, chat_id) WHERE NOT seen",
    "conversation_sessions_end ON conversation_sessions (tenant_id, chat_id, ended_at DESC)",
    "conversation_sessions_status ON conversation_sessions (tenant_id, chat_id, status)",
    # the sweep looks for open sessions over all tenants; there are few beside all the closed ones
    "conversation_sessions_open ON conversation_sessions (ended_at) WHERE status = 'open'",
    "conversation_sessions_merged ON conversation_sessions (tenant_id, merged_into) WHERE merged_into IS NOT NULL",
    "user_senders_user ON user_senders (tenant_id, user_id)",
    "memories_user ON memories (tenant_id, user_id, importance) WHERE scope = 'user'",
    "memories_session ON memories (tenant_id, session_id) WHERE session_id IS NOT NULL",
    "memories_expiry ON memories (expires_at) WHERE expires_at IS NOT NULL",
]
UNIQUE_INDEXES = [
    "conversation_sessions_start ON conversation_sessions (tenant_id, chat_id, session_key, started_at) "
    "WHERE status <> 'merged'",
    "memories_content ON memories (tenant_id, scope, coalesce(session_id, 0), coalesce(user_id, ''), "
    "coalesce(agent_id, ''), coalesce(document_id, ''), content_hash)",
]
