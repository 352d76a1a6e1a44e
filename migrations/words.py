"""Functions and steps shared by the migrations that change how words are indexed."""

from alembic import op
from sqlalchemy import text

AT_ONCE = 1000
"""Memories that are indexed anew in one transaction."""
# Letters of scripts without spaces: Thai, Lao, Myanmar, Khmer, Han, kana; and Hangul, whose words have endings. What is
# a letter must not depend on the server's locale, so they are listed.
LETTERS = (
    r"\u0e01-\u0e30\u0e32\u0e33\u0e40-\u0e46\u0e81-\u0eb0\u0eb2\u0eb3\u0ebd-\u0ec6\u0edc-\u0edf\u1000-\u102a\u103f"
    r"\u1050-\u1055\u105a-\u105d\u1061\u1065\u1066\u106e-\u1070\u1075-\u1081\u108e\u1780-\u17b3\u17d7\u17dc"
    r"\u3005-\u3007\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"
    r"\uac00-\ud7a3\uf900-\ufaff\uff66-\uff9d\U00020000-\U0003ffff"
)
WORDS_WITH_ACCENTS = rf"""
    CREATE OR REPLACE FUNCTION words_of(language text, content text) RETURNS tsvector
    LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE AS $$
    DECLARE
        spaced text := content;
        part text;
        found tsvector;
        more tsvector;
    BEGIN
        IF octet_length(content) > length(content) THEN
            spaced := public.words_apart(content);
            IF spaced ~ '[{LETTERS}]' THEN
                spaced := public.pairs_of(spaced);
            END IF;
        END IF;
        IF strpos(language, '+') = 0 THEN
            RETURN public.words_in(language, spaced);
        END IF;
        FOREACH part IN ARRAY string_to_array(language, '+') LOOP
            more := public.words_in(part, spaced);
            found := coalesce(found || ts_delete(more, tsvector_to_array(found)), more);
        END LOOP;
        RETURN found;
    END $$
"""
"""The function `words_of` of 0009 to 0011, to which an accented letter is another letter."""
_BEYOND_ASCII = text(f"""
    SELECT tenant_id, id FROM memories
    WHERE (tenant_id, id) > (:tenant, CAST(:id AS uuid)) AND octet_length(content) > length(content)
    ORDER BY tenant_id, id LIMIT {AT_ONCE}
""")
_INDEX = text("""
    UPDATE memories m SET language = m.language
    FROM unnest(CAST(:tenants AS text[]), CAST(:ids AS uuid[])) AS these (tenant_id, id)
    WHERE m.tenant_id = these.tenant_id AND m.id = these.id
""")


def bind(force: str) -> None:
    """Let row-level security bind the owner of the tables (`FORCE`), or not (`NO FORCE`), who sees no rows otherwise.

    Call it where locks are not waited for long, and not inside `concurrently`: it still binds everybody else.
    """
    for table in ("chats", "jobs", "memories"):
        op.execute(f"ALTER TABLE {table} {force} ROW LEVEL SECURITY")


def index_anew() -> None:
    """Index memories with signs beyond ASCII anew, some at a time; a job does chats whose `words_after` is not null.

    Call it inside `concurrently`, while the owner sees all rows.
    """
    op.execute("""
        INSERT INTO jobs (tenant_id, kind, key, lane, priority, due_at)
        SELECT tenant_id, 'language', chat_id, hashtext(chat_id) & 32767, 1, now() FROM chats
        WHERE moved_to IS NULL AND words_after IS NOT NULL
        ON CONFLICT (tenant_id, kind, key) DO UPDATE SET
            wanted = jobs.wanted + 1, due_at = coalesce(jobs.due_at, now()),
            attempts = CASE WHEN jobs.dead_at IS NULL THEN jobs.attempts ELSE 0 END, dead_at = NULL
    """)
    tenant, last = "", "00000000-0000-0000-0000-000000000000"
    while rows := op.get_bind().execute(_BEYOND_ASCII, {"tenant": tenant, "id": last}).all():
        op.get_bind().execute(
            _INDEX, {"tenants": [row.tenant_id for row in rows], "ids": [row.id for row in rows]}
        )
        tenant, last = rows[-1]
