"""Functions of the first schema that look past row-level security, for one tenant; and its trigger."""

from migrations.first_schema.functions import MADE_OF

# Two chats may share a number by accident or by intent, so tenant and chat are looked at again, behind OFFSET 0:
# otherwise the planner would take the index on them.
_HITS = """(
    SELECT hit.id, hit.tsv FROM (
        SELECT m.tenant_id, m.chat_id, m.session_key, m.id, m.tsv FROM public.messages m
        WHERE public.lexeme_keys(m.tenant_id, m.chat_id, m.tsv) && {keys} OFFSET 0) AS hit
    WHERE hit.tenant_id = tenant AND hit.chat_id = in_chat AND (in_key IS NULL OR hit.session_key = in_key)
    LIMIT most + 1)"""

# The frequency of a lexeme in a message is read back from `ts_rank`: for a single lexeme with all weights 1 it
# is (1/1² + 1/2² + … + 1/n²) / 1.64493406685, and 1 / (π²/6 - that sum) is n + 1/2 to within 0.06. `unnest` of
# the tsvector takes ten times as long.
TIMES = "round(1 / (1.64493406685 * (1 - ts_rank('{{1,1,1,1}}', {tsv}, {query}))) - 0.5)"
NORM = "1.2 * (0.25 + 0.75 * length({tsv}) / mean_size)"


def weighed_lexemes(hits: str) -> str:
    """Return SQL of `weighed`, the lexemes with their weights; `hits` is SQL of the messages that hold `{keys}`."""
    return f"""        WITH asked AS MATERIALIZED (
            SELECT lexeme, public.lexeme_keys(tenant, in_chat, array_to_tsvector(ARRAY[lexeme])) AS keys,
                ('''' || replace(replace(lexeme, '\\', '\\\\'), '''', '''''') || '''')::tsquery AS query
            FROM unnest(words) AS lexeme
        ), counted AS MATERIALIZED (
            SELECT asked.*, (SELECT count(*) FROM {hits.format(keys="asked.keys")} AS found) AS counted FROM asked
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
"""


_KEYWORD_SEARCH = f"""
    CREATE FUNCTION keyword_search(
        in_chat text, in_key text, words text[], total float8, mean_size float8, most integer, best integer,
        OUT frequencies jsonb, OUT scores jsonb, OUT exact boolean)
    LANGUAGE plpgsql STABLE SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off
    AS $function$
    DECLARE
        tenant CONSTANT text := nullif(current_setting('app.tenant_id', true), '');
    BEGIN
        IF tenant IS NULL THEN
            RETURN;
        END IF;
{weighed_lexemes(_HITS)}        ), rare AS MATERIALIZED (
            SELECT hit.id, hit.tsv, weight, {NORM.format(tsv="hit.tsv")} AS norm,
                {TIMES.format(tsv="hit.tsv", query="query")} AS times
            FROM weighed CROSS JOIN LATERAL {_HITS.format(keys="weighed.keys")} AS hit
            WHERE weighed.rare OR weighed.place = 1
        ), common AS (
            SELECT id, weight, norm, {TIMES.format(tsv="tsv", query="query")} AS times
            FROM (SELECT DISTINCT ON (id) id, tsv, norm FROM rare) AS candidate
            JOIN weighed ON candidate.tsv @@ weighed.query
            WHERE NOT weighed.rare AND weighed.place > 1
        ), scored AS (
            SELECT id, sum(weight * times / (times + norm)) AS score FROM (
                SELECT id, weight, norm, times FROM rare UNION ALL SELECT id, weight, norm, times FROM common) AS part
            GROUP BY id ORDER BY score DESC, id DESC LIMIT best
        )
        SELECT (SELECT jsonb_object_agg(lexeme, df) FROM weighed), (SELECT jsonb_object_agg(id, score) FROM scored),
            (SELECT bool_and(weighed.rare) FROM weighed)
        INTO frequencies, scores, exact;
    END
    $function$
"""

# What is found may be another's by accident: tenants may share a number. So the tenant is looked at, behind OFFSET 0,
# as otherwise the planner would take the index on it. Whether a question quotes a text is for the caller to look at.
_LOOK_UP = """
    CREATE FUNCTION {name}(in_chat text, items text[], texts text[]) RETURNS SETOF {type}
    LANGUAGE plpgsql STABLE SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off
    AS $function$
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
                SELECT t.tenant_id, t.{id} AS id FROM public.{table} t WHERE {keys} && part{only} OFFSET 0) AS hit
            WHERE hit.tenant_id = tenant;
        END LOOP;
    END
    $function$
"""
SEARCHES = {
    "keyword_search(text, text, text[], float8, float8, integer, integer)": _KEYWORD_SEARCH,
    "contexts_with(text, text[], text[])": _LOOK_UP.format(
        name="contexts_with",
        type="text",
        table="query_log",
        id="context_id",
        keys="public.log_keys(t.tenant_id, t.chat_id, t.query, t.shown)",
        only="",
    ),
    "memories_with(text, text[], text[])": _LOOK_UP.format(
        name="memories_with",
        type="uuid",
        table="memories",
        id="id",
        keys="public.memory_keys(t.tenant_id, t.type, t.learned_in, t.content, t.metadata, t.source_message_ids, "
        "t.source_session_id)",
        only=f" AND {MADE_OF}",
    ),
}

READABLE = {
    "messages": "tenant_id, chat_id, session_key, id, sent_at, tsv",
    "query_log": "tenant_id, context_id, chat_id, query, shown",
    "memories": "tenant_id, id, type, learned_in, content, metadata, source_message_ids, source_session_id",
}
"""The columns that the searches read, by table."""

# Whoever speaks in a chat is a member of it. A trigger, so that this holds for every stored message; sorted, so that
# two of them do not deadlock.
NOTE_SPEAKERS = """
    CREATE FUNCTION note_speakers() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        INSERT INTO public.chat_members (tenant_id, chat_id, sender_id)
        SELECT DISTINCT tenant_id, chat_id, sender_id FROM stored WHERE role = 'user'
        ORDER BY tenant_id, chat_id, sender_id
        ON CONFLICT DO NOTHING;
        RETURN NULL;
    END $$
"""
TRIGGER = """
    CREATE TRIGGER note_speakers AFTER INSERT ON messages REFERENCING NEW TABLE AS stored
    FOR EACH STATEMENT EXECUTE FUNCTION note_speakers()
"""
