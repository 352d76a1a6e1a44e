-- Searches that look past row-level security, for one tenant: see keys.sql.

-- The best messages and sessions by BM25. Two chats may share a number by accident or by intent, so tenant and chat are
-- looked at again, behind OFFSET 0: otherwise the planner would take the index on them.
--
-- The frequency of a lexeme in a message is read back from `ts_rank`: for a single lexeme with all weights 1 it is
-- (1/1² + 1/2² + … + 1/n²) / 1.64493406685, and 1 / (π²/6 - that sum) is n + 1/2 to within 0.06. `unnest` of the
-- tsvector takes ten times as long.
--
-- A message is in the last session of its key that began before it. These are found in a sorted array of their
-- beginnings, as to look each up in an index takes ten times as long.
CREATE FUNCTION keyword_search(
    in_chat text, in_key text, words text[], total float8, mean_size float8, most integer, best integer,
    best_sessions integer DEFAULT 0,
    OUT frequencies jsonb, OUT scores jsonb, OUT exact boolean, OUT sessions jsonb)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off
AS $$
DECLARE
    tenant CONSTANT text := nullif(current_setting('app.tenant_id', true), '');
BEGIN
    IF tenant IS NULL THEN
        RETURN;
    END IF;
    WITH asked AS MATERIALIZED (
        SELECT lexeme, public.lexeme_keys(tenant, in_chat, array_to_tsvector(ARRAY[lexeme])) AS keys,
            ('''' || replace(replace(lexeme, '\', '\\'), '''', '''''') || '''')::tsquery AS query
        FROM unnest(words) AS lexeme
    ), counted AS MATERIALIZED (
        SELECT asked.*, (SELECT count(*) FROM (
            SELECT hit.id, hit.tsv, hit.session_key, hit.sent_at FROM (
                SELECT m.tenant_id, m.chat_id, m.session_key, m.id, m.tsv, m.sent_at FROM public.messages m
                WHERE public.lexeme_keys(m.tenant_id, m.chat_id, m.tsv) && asked.keys OFFSET 0) AS hit
            WHERE hit.tenant_id = tenant AND hit.chat_id = in_chat AND (in_key IS NULL OR hit.session_key = in_key)
            LIMIT most + 1) AS found) AS counted FROM asked
    ), sample AS MATERIALIZED (
        SELECT drawn.tsv
        FROM (SELECT min(sent_at) AS began, max(sent_at) AS ended FROM public.messages
            WHERE tenant_id = tenant AND chat_id = in_chat) AS times
        CROSS JOIN generate_series(0, 19) AS step
        CROSS JOIN LATERAL (SELECT tsv FROM public.messages
            WHERE tenant_id = tenant AND chat_id = in_chat
                AND sent_at >= times.began + step * (times.ended - times.began) / 20
            ORDER BY sent_at LIMIT 50) AS drawn
    ), known AS MATERIALIZED (
        SELECT counted.*, CASE WHEN counted <= most THEN counted::float8 ELSE greatest(counted, total * (
            SELECT (count(*) FILTER (WHERE tsv @@ query)) / greatest(count(*), 1)::float8 FROM sample)) END AS df
        FROM counted WHERE counted > 0
    ), weighed AS MATERIALIZED (
        SELECT known.*, 2.2 * ln(1 + (greatest(total, df) - df + 0.5) / (df + 0.5)) AS weight,
            sum(df) OVER rarest <= most AS rare, row_number() OVER rarest AS place
        FROM known WINDOW rarest AS (ORDER BY df, lexeme)
    ), rare AS MATERIALIZED (
        SELECT hit.*, lexeme, weight, 1.2 * (0.25 + 0.75 * length(hit.tsv) / mean_size) AS norm,
            round(1 / (1.64493406685 * (1 - ts_rank('{1,1,1,1}', hit.tsv, query))) - 0.5) AS times
        FROM weighed CROSS JOIN LATERAL (
            SELECT hit.id, hit.tsv, hit.session_key, hit.sent_at FROM (
                SELECT m.tenant_id, m.chat_id, m.session_key, m.id, m.tsv, m.sent_at FROM public.messages m
                WHERE public.lexeme_keys(m.tenant_id, m.chat_id, m.tsv) && weighed.keys OFFSET 0) AS hit
            WHERE hit.tenant_id = tenant AND hit.chat_id = in_chat AND (in_key IS NULL OR hit.session_key = in_key)
            LIMIT most + 1) AS hit
        WHERE weighed.rare OR weighed.place = 1
    ), part AS MATERIALIZED (
        SELECT id, session_key, sent_at, lexeme, weight, norm, times FROM rare
        UNION ALL
        SELECT id, session_key, sent_at, weighed.lexeme, weighed.weight, norm,
            round(1 / (1.64493406685 * (1 - ts_rank('{1,1,1,1}', tsv, weighed.query))) - 0.5)
        FROM (SELECT DISTINCT ON (id) id, tsv, session_key, sent_at, norm FROM rare) AS candidate
        JOIN weighed ON candidate.tsv @@ weighed.query
        WHERE NOT weighed.rare AND weighed.place > 1
    ), scored AS (
        SELECT id, sum(weight * times / (times + norm)) AS score FROM part
        GROUP BY id ORDER BY score DESC, id DESC LIMIT best
    ), began AS MATERIALIZED (
        SELECT session_key, array_agg(id ORDER BY started_at, id) AS ids,
            array_agg(started_at ORDER BY started_at, id) AS times,
            array_agg(message_count ORDER BY started_at, id) AS sizes
        FROM public.conversation_sessions
        WHERE best_sessions > 0 AND tenant_id = tenant AND chat_id = in_chat AND status <> 'merged'
            AND (in_key IS NULL OR session_key = in_key)
        GROUP BY session_key
    ), inside AS MATERIALIZED (
        SELECT session_key, width_bucket(part.sent_at, began.times) AS place, lexeme, weight,
            sum(part.times) AS times
        FROM part JOIN began USING (session_key) GROUP BY 1, 2, 3, 4
    ), held AS (
        SELECT ids[place] AS id, sum(weight * inside.times / (inside.times + 1.2 * (0.25 + 0.75 * sizes[place]
            / (SELECT greatest(total / sum(cardinality(ids)), 1) FROM began)))) AS score
        FROM inside JOIN began USING (session_key) WHERE place > 0
        GROUP BY 1 ORDER BY score DESC, id DESC LIMIT best_sessions
    )
    SELECT (SELECT jsonb_object_agg(lexeme, df) FROM weighed), (SELECT jsonb_object_agg(id, score) FROM scored),
        (SELECT bool_and(weighed.rare) FROM weighed), (SELECT jsonb_object_agg(id, score) FROM held)
    INTO frequencies, scores, exact, sessions;
END
$$;

-- Contexts and memories by what they show or quote. What is found may be another's by accident: tenants may share a
-- number. So the tenant is looked at, behind OFFSET 0, as otherwise the planner would take the index on it. Whether a
-- question quotes a text is for the caller to look at.
CREATE FUNCTION contexts_with(in_chat text, items text[], texts text[]) RETURNS SETOF text
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off
AS $$
DECLARE
    tenant CONSTANT text := nullif(current_setting('app.tenant_id', true), '');
    wanted bigint[];
    part bigint[];
BEGIN
    IF tenant IS NULL THEN
        RETURN;
    END IF;
    wanted := public.item_keys(tenant, items) || public.said_keys(tenant, in_chat, texts);
    -- the cost of a scan per row grows with its keys, so long lists are searched in parts
    FOR start IN 1..coalesce(cardinality(wanted), 0) BY 1000 LOOP
        part := wanted[start:start + 999];
        RETURN QUERY SELECT hit.id FROM (
            SELECT t.tenant_id, t.context_id AS id FROM public.query_log t
            WHERE public.log_keys(t.tenant_id, t.chat_id, t.query, t.shown) && part OFFSET 0) AS hit
        WHERE hit.tenant_id = tenant;
    END LOOP;
END
$$;
CREATE FUNCTION memories_with(in_chat text, items text[], texts text[]) RETURNS SETOF uuid
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off
AS $$
DECLARE
    tenant CONSTANT text := nullif(current_setting('app.tenant_id', true), '');
    wanted bigint[];
    part bigint[];
BEGIN
    IF tenant IS NULL THEN
        RETURN;
    END IF;
    wanted := public.item_keys(tenant, items) || public.said_keys(tenant, in_chat, texts);
    -- the cost of a scan per row grows with its keys, so long lists are searched in parts
    FOR start IN 1..coalesce(cardinality(wanted), 0) BY 1000 LOOP
        part := wanted[start:start + 999];
        RETURN QUERY SELECT hit.id FROM (
            SELECT t.tenant_id, t.id AS id FROM public.memories t
            WHERE public.memory_keys(t.tenant_id, t.type, t.learned_in, t.content, t.metadata, t.source_message_ids,
                t.source_session_id) && part
                AND (type = 'qa_turn' OR source_message_ids <> '{}' OR source_session_id IS NOT NULL) OFFSET 0) AS hit
        WHERE hit.tenant_id = tenant;
    END LOOP;
END
$$;
