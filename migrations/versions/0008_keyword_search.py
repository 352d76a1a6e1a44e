"""Keyword search that keeps its index under row-level security, and an index for a chat's newest messages.

`@@` and `&&` are not leakproof, so no GIN index serves a role that row-level security binds. A function that
belongs to a role without login looks past it, and takes the tenant from the setting that the walls go by.

Revision: 0008, after 0007
"""

from alembic import op

from migrations.concurrently import build, concurrently, drop

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

# The lexemes of a message as numbers that no other chat shares: one entry of the index holds the messages of one
# chat in which one lexeme stands, however many tenants and chats the table holds.
KEYS = """
    CREATE OR REPLACE FUNCTION lexeme_keys(tenant text, chat text, lexemes tsvector) RETURNS bigint[]
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    RETURN ARRAY(
        SELECT pg_catalog.hashtextextended(lexeme,
            pg_catalog.hashtextextended(chat, pg_catalog.hashtextextended(tenant, 0)))
        FROM pg_catalog.unnest(pg_catalog.tsvector_to_array(lexemes)) AS lexeme)
"""
INDEXES = {
    # new messages go into a list beside the index first, which every search reads whole: it is kept short (kB)
    "messages_keys": "USING gin (lexeme_keys(tenant_id, chat_id, tsv)) WITH (gin_pending_list_limit = 256)",
    "messages_newest": "(tenant_id, chat_id, sent_at)",
}

# Two chats may share a number by accident or by intent, so tenant and chat are looked at again, behind OFFSET 0:
# otherwise the planner would take the index on them.
_HITS = """(
    SELECT hit.id, hit.tsv FROM (
        SELECT m.tenant_id, m.chat_id, m.session_key, m.id, m.tsv FROM public.messages m
        WHERE public.lexeme_keys(m.tenant_id, m.chat_id, m.tsv) && {keys} OFFSET 0) AS hit
    WHERE hit.tenant_id = tenant AND hit.chat_id = in_chat AND (in_key IS NULL OR hit.session_key = in_key)
    LIMIT most + 1)"""

# How often a lexeme stands in a message is read back from `ts_rank`: for a single lexeme with all weights 1 it
# is (1/1² + 1/2² + … + 1/n²) / 1.64493406685, and 1 / (π²/6 - that sum) is n + 1/2 to within 0.06. `unnest` of
# the tsvector takes ten times as long.
_TIMES = "round(1 / (1.64493406685 * (1 - ts_rank('{{1,1,1,1}}', {tsv}, {query}))) - 0.5)"
_NORM = "1.2 * (0.25 + 0.75 * length({tsv}) / mean_size)"

SEARCH = f"""
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
        WITH asked AS MATERIALIZED (
            SELECT lexeme, public.lexeme_keys(tenant, in_chat, array_to_tsvector(ARRAY[lexeme])) AS keys,
                ('''' || replace(replace(lexeme, '\\', '\\\\'), '''', '''''') || '''')::tsquery AS query
            FROM unnest(words) AS lexeme
        ), counted AS MATERIALIZED (
            SELECT asked.*, (SELECT count(*) FROM {_HITS.format(keys="asked.keys")} AS found) AS counted FROM asked
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
            SELECT hit.id, hit.tsv, weight, {_NORM.format(tsv="hit.tsv")} AS norm,
                {_TIMES.format(tsv="hit.tsv", query="query")} AS times
            FROM weighed CROSS JOIN LATERAL {_HITS.format(keys="weighed.keys")} AS hit
            WHERE weighed.rare OR weighed.place = 1
        ), common AS (
            SELECT id, weight, norm, {_TIMES.format(tsv="tsv", query="query")} AS times
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
SIGNATURE = "keyword_search(text, text, text[], float8, float8, integer, integer)"


def upgrade() -> None:
    op.execute(KEYS)
    # whoever writes a message computes its keys
    op.execute("GRANT EXECUTE ON FUNCTION lexeme_keys(text, text, tsvector) TO backscroll_app")
    with concurrently():
        for name, definition in INDEXES.items():
            build(name, f"messages {definition}")
        # row-level security has kept everybody from using it
        drop("messages_tsv")
    op.execute(SEARCH)
    op.execute(f"REVOKE ALL ON FUNCTION {SIGNATURE} FROM PUBLIC")
    op.execute(f"GRANT EXECUTE ON FUNCTION {SIGNATURE} TO backscroll_app")
    op.execute(f"ALTER FUNCTION {SIGNATURE} OWNER TO backscroll_search")
    op.execute(
        "GRANT SELECT (tenant_id, chat_id, session_key, id, sent_at, tsv) ON messages TO backscroll_search"
    )


def downgrade() -> None:
    op.execute(f"DROP FUNCTION {SIGNATURE}")
    op.execute(
        "REVOKE SELECT (tenant_id, chat_id, session_key, id, sent_at, tsv) ON messages FROM backscroll_search"
    )
    with concurrently():
        for name in INDEXES:
            drop(name)
        build("messages_tsv", "messages USING gin (tsv)")
    op.execute("DROP FUNCTION lexeme_keys(text, text, tsvector)")
