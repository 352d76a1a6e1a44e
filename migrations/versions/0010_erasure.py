"""What forgetting, editing, export and pruning look things up by.

Erased messages are looked for in the query log and among the memories by one index each: of what a context showed,
of what a memory was made of, and of the words of the question. `&&` is not leakproof, so no GIN index serves a role
that row-level security binds: as for the keyword search, functions of a role without login look past it and take the
tenant from the setting that the walls go by.

Revision: 0010, after 0009
"""

from alembic import op

from migrations.concurrently import build, concurrently, drop

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

# Characters that are words by themselves: scripts without spaces (Thai to Myanmar, Khmer, kana, Han), and emoji.
_ALONE = (
    r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3041-\u30fa\u30fc-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    r"\uff66-\uff9f\U0001f000-\U0001faff\U00020000-\U0003ffff]"
)
# Spaces, punctuation and signs, by code point: what is a letter must not depend on the server's locale.
_BETWEEN = (
    r"[\u0001-\u002f\u003a-\u0040\u005b-\u0060\u007b-\u00a9\u00ab-\u00b4\u00b6-\u00b9\u00bb-\u00bf\u00d7\u00f7"
    r"\u060c\u061b\u061f\u06d4\u0964\u0965\u2000-\u206f\u20a0-\u20cf\u2190-\u2bff\u3000-\u3004\u3008-\u3020\u30fb"
    r"\ufe00-\ufe0f\ufeff\uff01-\uff0f\uff1a-\uff20\uff3b-\uff40\uff5b-\uff65]"
)

FUNCTIONS = {
    # A text as quotes are compared: its words in lower case, a space around each; empty without words.
    "quotable(text)": rf"""
        CREATE OR REPLACE FUNCTION quotable(content text) RETURNS text LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
        RETURN coalesce(' ' || nullif(btrim(regexp_replace(
            regexp_replace(lower(content), '({_ALONE})', ' \1 ', 'g'), '{_BETWEEN}+', ' ', 'g')), '') || ' ', '')
    """,
    # Whether one says what the other says, both as of `quotable`: the same, or a long part of it.
    "quotes(text, text)": """
        CREATE OR REPLACE FUNCTION quotes(question text, said text) RETURNS boolean
        LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
        RETURN question <> '' AND said <> '' AND (question = said
            OR length(said) >= 10 AND strpos(question, said) > 0
            OR length(question) >= 10 AND strpos(said, question) > 0)
    """,
    # What things are found by, such as `message:12`, as numbers that no other tenant shares.
    "item_keys(text, text[])": """
        CREATE OR REPLACE FUNCTION item_keys(tenant text, items text[]) RETURNS bigint[]
        LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
        RETURN ARRAY(SELECT hashtextextended(item, hashtextextended(tenant, 0)) FROM unnest(items) AS item)
    """,
    # What a question is found by in its chat: its long words and its runs of two and three, for a text that it quotes;
    # its last four words, for a text that quotes it.
    "question_keys(text, text, text)": """
        CREATE OR REPLACE FUNCTION question_keys(tenant text, chat text, question text) RETURNS bigint[]
        LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
        RETURN ARRAY(
            WITH split AS (SELECT string_to_array(btrim(quotable(question)), ' ') AS words),
                placed AS (SELECT word AS one, lead(word) OVER following AS two, lead(word, 2) OVER following AS three
                    FROM split, unnest(words) WITH ORDINALITY AS each (word, place)
                    WINDOW following AS (ORDER BY place))
            SELECT hashtextextended(part, hashtextextended(chat, hashtextextended(tenant, 0))) FROM (
                SELECT one FROM placed WHERE length(one) >= 8
                UNION ALL SELECT one || ' ' || two FROM placed WHERE two IS NOT NULL
                UNION ALL SELECT one || ' ' || two || ' ' || three FROM placed WHERE three IS NOT NULL
                UNION ALL SELECT '$' || array_to_string(words[greatest(cardinality(words) - 3, 1):], ' ')
                    FROM split WHERE cardinality(words) > 0
            ) AS parts (part))
    """,
    # What texts that are erased look for questions by: each its longest run of three words, or of as many as it has,
    # and all its runs of up to four words that a question might end with.
    "said_keys(text, text, text[])": """
        CREATE OR REPLACE FUNCTION said_keys(tenant text, chat text, texts text[]) RETURNS bigint[]
        LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
        RETURN ARRAY(
            WITH split AS MATERIALIZED (
                SELECT DISTINCT string_to_array(btrim(quotable(content)), ' ') AS words FROM unnest(texts) AS content
            ), numbered AS MATERIALIZED (
                SELECT row_number() OVER () AS number, cardinality(words) AS size, words FROM split
            ), placed AS MATERIALIZED (
                SELECT number, size, word AS one, lead(word) OVER following AS two,
                    lead(word, 2) OVER following AS three, lead(word, 3) OVER following AS four
                FROM numbered, unnest(words) WITH ORDINALITY AS each (word, place)
                WINDOW following AS (PARTITION BY number ORDER BY place)
            ), runs AS (
                SELECT 1 AS length, number, size, one AS part FROM placed
                UNION ALL SELECT 2, number, size, one || ' ' || two FROM placed
                UNION ALL SELECT 3, number, size, one || ' ' || two || ' ' || three FROM placed
                UNION ALL SELECT 4, number, size, one || ' ' || two || ' ' || three || ' ' || four FROM placed
            )
            SELECT DISTINCT hashtextextended(part, hashtextextended(chat, hashtextextended(tenant, 0))) FROM (
                (SELECT DISTINCT ON (number) part FROM runs WHERE part IS NOT NULL AND length = least(size, 3)
                    ORDER BY number, length(part) DESC)
                UNION ALL SELECT '$' || part FROM runs
                WHERE part IS NOT NULL AND (length = 4 OR length(part) >= 8 OR length = size)
            ) AS parts (part))
    """,
    "log_keys(text, text, text, jsonb)": """
        CREATE OR REPLACE FUNCTION log_keys(tenant text, chat text, question text, shown jsonb) RETURNS bigint[]
        LANGUAGE sql IMMUTABLE PARALLEL SAFE
        RETURN item_keys(tenant, ARRAY(SELECT jsonb_object_keys(shown)))
            || CASE WHEN question IS NULL THEN '{}' ELSE question_keys(tenant, chat, question) END
    """,
    # The question that a memory begins with, when it is question and answer.
    "question_of(text, text, jsonb)": """
        CREATE OR REPLACE FUNCTION question_of(type text, content text, metadata jsonb) RETURNS text
        LANGUAGE sql IMMUTABLE PARALLEL SAFE
        RETURN CASE WHEN type = 'qa_turn' AND jsonb_typeof(metadata->'question_chars') = 'number' THEN
            left(content, least(greatest((metadata->>'question_chars')::numeric, 0), 65536)::integer) END
    """,
    "memory_keys(text, text, text, text, jsonb, bigint[], bigint)": """
        CREATE OR REPLACE FUNCTION memory_keys(tenant text, type text, chat text, content text, metadata jsonb,
            messages bigint[], session bigint) RETURNS bigint[]
        LANGUAGE sql IMMUTABLE PARALLEL SAFE
        RETURN item_keys(tenant, ARRAY(
                SELECT 'message:' || message FROM unnest(messages) AS message
                UNION ALL SELECT 'session:' || session WHERE session IS NOT NULL
                UNION ALL SELECT item FROM jsonb_array_elements_text(CASE
                    WHEN type = 'qa_turn' AND jsonb_typeof(metadata->'recalled') = 'array'
                    THEN metadata->'recalled' ELSE '[]' END) AS item))
            || CASE WHEN chat IS NULL OR question_of(type, content, metadata) IS NULL THEN '{}'
                ELSE question_keys(tenant, chat, question_of(type, content, metadata)) END
    """,
}

_MEMORY_KEYS = (
    "memory_keys(tenant_id, type, learned_in, content, metadata, source_message_ids, source_session_id)"
)
# the others cost nothing when they are written
_MADE_OF = "(type = 'qa_turn' OR source_message_ids <> '{}' OR source_session_id IS NOT NULL)"
# new rows go into a list beside the index first, which every look-up reads whole: it is kept short (kB)
_SHORT = "WITH (gin_pending_list_limit = 256)"

INDEXES = {
    "query_log_keys": f"query_log USING gin (log_keys(tenant_id, chat_id, query, shown)) {_SHORT}",
    "memories_keys": f"memories USING gin ({_MEMORY_KEYS}) {_SHORT} WHERE {_MADE_OF}",
    # forgetting and export look for a person's messages and for the chats that they spoke in
    "messages_sender": "messages (tenant_id, sender_id, chat_id)",
}

# What is found may be another's by accident: tenants may share a number. So the tenant is looked at, behind OFFSET 0,
# as otherwise the planner would take the index on it. Whether a question quotes a text is for the caller to look at.
_SEARCH = """
    CREATE OR REPLACE FUNCTION {name}(in_chat text, items text[], texts text[]) RETURNS SETOF {type}
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
        -- a scan for so many keys takes as many steps for each row that it finds
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
    "contexts_with(text, text[], text[])": _SEARCH.format(
        name="contexts_with",
        type="text",
        table="query_log",
        id="context_id",
        keys="public.log_keys(t.tenant_id, t.chat_id, t.query, t.shown)",
        only="",
    ),
    "memories_with(text, text[], text[])": _SEARCH.format(
        name="memories_with",
        type="uuid",
        table="memories",
        id="id",
        keys="public.memory_keys(t.tenant_id, t.type, t.learned_in, t.content, t.metadata, t.source_message_ids, "
        "t.source_session_id)",
        only=f" AND {_MADE_OF}",
    ),
}
READ = {
    "query_log": "tenant_id, context_id, chat_id, query, shown",
    "memories": "tenant_id, id, type, learned_in, content, metadata, source_message_ids, source_session_id",
}


def upgrade() -> None:
    # since when a session is a pointer to another; none: from before it was noted
    op.execute("ALTER TABLE conversation_sessions ADD COLUMN IF NOT EXISTS merged_at timestamptz")
    for signature, statement in FUNCTIONS.items():
        op.execute(statement)
        # whoever writes a row computes its keys
        op.execute(f"GRANT EXECUTE ON FUNCTION {signature} TO backscroll_app, backscroll_search")
    with concurrently():
        for name, definition in INDEXES.items():
            build(name, definition)
    for signature, statement in SEARCHES.items():
        op.execute(statement)
        op.execute(f"REVOKE ALL ON FUNCTION {signature} FROM PUBLIC")
        op.execute(f"GRANT EXECUTE ON FUNCTION {signature} TO backscroll_app")
        op.execute(f"ALTER FUNCTION {signature} OWNER TO backscroll_search")
    for table, columns in READ.items():
        op.execute(f"GRANT SELECT ({columns}) ON {table} TO backscroll_search")


def downgrade() -> None:
    for signature in SEARCHES:
        op.execute(f"DROP FUNCTION {signature}")
    for table, columns in READ.items():
        op.execute(f"REVOKE SELECT ({columns}) ON {table} FROM backscroll_search")
    with concurrently():
        for name in INDEXES:
            drop(name)
    for signature in reversed(FUNCTIONS):
        op.execute(f"DROP FUNCTION {signature}")
    op.execute("ALTER TABLE conversation_sessions DROP COLUMN merged_at")
