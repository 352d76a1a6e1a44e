-- The keys by which messages, contexts and memories are found in GIN indexes.
--
-- `@@` and `&&` are not leakproof, so no GIN index serves a role that row-level security binds. The searches (see
-- searches.sql) belong to a role without login that looks past it, and take the tenant from the setting that the
-- policies go by.

-- The lexemes of a message as numbers that no other chat shares: one entry of the index holds the messages of one
-- chat that have one lexeme, however many tenants and chats the table holds.
CREATE FUNCTION lexeme_keys(tenant text, chat text, lexemes tsvector) RETURNS bigint[]
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN ARRAY(
    SELECT pg_catalog.hashtextextended(lexeme,
        pg_catalog.hashtextextended(chat, pg_catalog.hashtextextended(tenant, 0)))
    FROM pg_catalog.unnest(pg_catalog.tsvector_to_array(lexemes)) AS lexeme);

-- A text as quotes are compared: its words in lower case, a space around each; empty without words. What is a letter must
-- not depend on the server's locale, so signs are listed: first those that are words by themselves, of scripts without
-- spaces (Thai to Myanmar, Khmer, kana, Han) and emoji, then spaces, punctuation and signs between words.
CREATE FUNCTION quotable(content text) RETURNS text LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN coalesce(' ' || nullif(btrim(regexp_replace(regexp_replace(lower(content),
    '([\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3041-\u30fa\u30fc-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff'
    '\uff66-\uff9f\U0001f000-\U0001faff\U00020000-\U0003ffff])', ' \1 ', 'g'),
    '[\u0001-\u002f\u003a-\u0040\u005b-\u0060\u007b-\u00a9\u00ab-\u00b4\u00b6-\u00b9\u00bb-\u00bf\u00d7\u00f7'
    '\u060c\u061b\u061f\u06d4\u0964\u0965\u2000-\u206f\u20a0-\u20cf\u2190-\u2bff\u3000-\u3004\u3008-\u3020\u30fb'
    '\ufe00-\ufe0f\ufeff\uff01-\uff0f\uff1a-\uff20\uff3b-\uff40\uff5b-\uff65]+', ' ', 'g')), '') || ' ', '');

-- Whether one says what the other says, both as of `quotable`: the same, or a long part of it.
CREATE FUNCTION quotes(question text, said text) RETURNS boolean
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN question <> '' AND said <> '' AND (question = said
    OR length(said) >= 10 AND strpos(question, said) > 0
    OR length(question) >= 10 AND strpos(said, question) > 0);

-- What things are found by, such as `message:12`, as numbers that no other tenant shares.
CREATE FUNCTION item_keys(tenant text, items text[]) RETURNS bigint[]
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN ARRAY(SELECT hashtextextended(item, hashtextextended(tenant, 0)) FROM unnest(items) AS item);

-- What a question is found by in its chat: its long words and its runs of two and three, for a text that it quotes;
-- its last four words, for a text that quotes it.
CREATE FUNCTION question_keys(tenant text, chat text, question text) RETURNS bigint[]
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
    ) AS parts (part));

-- What texts that are erased look for questions by: each its longest run of three words, or of as many as it has,
-- and all its runs of up to four words that a question might end with.
CREATE FUNCTION said_keys(tenant text, chat text, texts text[]) RETURNS bigint[]
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
    ) AS parts (part));

CREATE FUNCTION log_keys(tenant text, chat text, question text, shown jsonb) RETURNS bigint[]
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN item_keys(tenant, ARRAY(SELECT jsonb_object_keys(shown)))
    || CASE WHEN question IS NULL THEN '{}' ELSE question_keys(tenant, chat, question) END;

-- The question that a memory begins with, when it is question and answer.
CREATE FUNCTION question_of(type text, content text, metadata jsonb) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE WHEN type = 'qa_turn' AND jsonb_typeof(metadata->'question_chars') = 'number' THEN
    left(content, least(greatest((metadata->>'question_chars')::numeric, 0), 65536)::integer) END;

CREATE FUNCTION memory_keys(tenant text, type text, chat text, content text, metadata jsonb,
    messages bigint[], session bigint) RETURNS bigint[]
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN item_keys(tenant, ARRAY(
        SELECT 'message:' || message FROM unnest(messages) AS message
        UNION ALL SELECT 'session:' || session WHERE session IS NOT NULL
        UNION ALL SELECT item FROM jsonb_array_elements_text(CASE
            WHEN type = 'qa_turn' AND jsonb_typeof(metadata->'recalled') = 'array'
            THEN metadata->'recalled' ELSE '[]' END) AS item))
    || CASE WHEN chat IS NULL OR question_of(type, content, metadata) IS NULL THEN '{}'
        ELSE question_keys(tenant, chat, question_of(type, content, metadata)) END;

-- New rows go into a list beside the index first, which every look-up reads whole: it is kept short (kB).
CREATE INDEX messages_keys ON messages USING gin (lexeme_keys(tenant_id, chat_id, tsv))
    WITH (gin_pending_list_limit = 256);
CREATE INDEX query_log_keys ON query_log USING gin (log_keys(tenant_id, chat_id, query, shown))
    WITH (gin_pending_list_limit = 256);
-- other memories cost nothing when they are written
CREATE INDEX memories_keys ON memories USING gin (
    memory_keys(tenant_id, type, learned_in, content, metadata, source_message_ids, source_session_id))
    WITH (gin_pending_list_limit = 256)
    WHERE (type = 'qa_turn' OR source_message_ids <> '{}' OR source_session_id IS NOT NULL);
