-- What roles may do beside the app, which sees one tenant's rows (migrations/policies.py), and the backup.

-- The role that serves all tenants at once looks at what is due, and claims it. It reads no text.
CREATE POLICY all_tenants ON tenants TO backscroll_maintenance USING (true);
CREATE POLICY all_tenants ON arrivals TO backscroll_maintenance USING (true);
CREATE POLICY all_tenants ON backfills TO backscroll_maintenance USING (true);
CREATE POLICY all_tenants ON daily_counters TO backscroll_maintenance USING (true);
CREATE POLICY all_tenants ON jobs TO backscroll_maintenance USING (true);
CREATE POLICY all_tenants ON refused_payloads TO backscroll_maintenance USING (true);
CREATE POLICY all_tenants ON chats TO backscroll_maintenance USING (true);
CREATE POLICY all_tenants ON conversation_sessions TO backscroll_maintenance USING (true);
CREATE POLICY all_tenants ON memories TO backscroll_maintenance USING (true);
CREATE POLICY all_tenants ON llm_calls TO backscroll_maintenance USING (true);
GRANT SELECT ON tenants, arrivals, backfills, daily_counters TO backscroll_maintenance;
GRANT SELECT, UPDATE ON jobs TO backscroll_maintenance;
GRANT SELECT (tenant_id, key, error, trace_id, refused_at) ON refused_payloads TO backscroll_maintenance;
GRANT SELECT (tenant_id, chat_id, kind, platform, message_count, settling_until, memory)
    ON chats TO backscroll_maintenance;
GRANT SELECT (tenant_id, id, chat_id, session_key, started_at, ended_at, message_count, status, revision,
    summary_revision, summary_version, summary_created_at, created_at)
    ON conversation_sessions TO backscroll_maintenance;
GRANT SELECT (tenant_id, id, scope, expires_at) ON memories TO backscroll_maintenance;
-- what calls cost over all tenants, and not in which chats
GRANT SELECT (tenant_id, purpose, model, provider, outcome, input_tokens, output_tokens, cost, latency_ms, called_at)
    ON llm_calls TO backscroll_maintenance;

-- Of the deployment.
GRANT USAGE ON SEQUENCE job_token TO backscroll_app, backscroll_maintenance;
GRANT SELECT ON SEQUENCE job_token TO backscroll_backup;
GRANT SELECT ON embedding_spaces, alembic_version TO backscroll_app, backscroll_backup, backscroll_maintenance;
GRANT UPDATE (calibration) ON embedding_spaces TO backscroll_app;
GRANT SELECT, INSERT, UPDATE, DELETE ON llm_providers, llm_slots TO backscroll_app;
GRANT SELECT ON llm_providers, llm_slots TO backscroll_backup;

-- The searches belong to a role without login that reads, of all tenants, what they look at.
GRANT SELECT (tenant_id, chat_id, session_key, id, sent_at, tsv) ON messages TO backscroll_search;
GRANT SELECT (tenant_id, context_id, chat_id, query, shown) ON query_log TO backscroll_search;
GRANT SELECT (tenant_id, id, type, learned_in, content, metadata, source_message_ids, source_session_id)
    ON memories TO backscroll_search;
GRANT SELECT (tenant_id, chat_id, session_key, id, started_at, message_count, status)
    ON conversation_sessions TO backscroll_search;
REVOKE ALL ON FUNCTION keyword_search, contexts_with, memories_with FROM PUBLIC;
GRANT EXECUTE ON FUNCTION keyword_search, contexts_with, memories_with TO backscroll_app;
ALTER FUNCTION keyword_search OWNER TO backscroll_search;
ALTER FUNCTION contexts_with OWNER TO backscroll_search;
ALTER FUNCTION memories_with OWNER TO backscroll_search;
-- the role that writes a row computes its keys and its words
GRANT EXECUTE ON FUNCTION lexeme_keys, quotable, quotes, item_keys, question_keys, said_keys, log_keys, question_of,
    memory_keys, words_apart, pairs_of, words_in, words_of, without_accents TO backscroll_app, backscroll_search;
