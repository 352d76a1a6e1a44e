"""Words are found with or without their accents: `reuniao` finds `reunião`, `zolw` finds `żółw`.

Revision: 0012
"""

from alembic import op

from migrations import words
from migrations.concurrently import concurrently

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None

# What stands above or below a letter: grave, acute, circumflex, tilde, macron, breve, dot, diaeresis, hook, ring,
# double acute, caron, horn, dot below, comma below, cedilla, ogonek. A letter with a stroke has none, and is replaced.
_MARKS = r"\0300\0301\0302\0303\0304\0306\0307\0308\0309\030a\030b\030c\031b\0323\0326\0327\0328"
_STROKED, _PLAIN = r"\0142\0141\00f8\00d8\0111\0110\0127\0126\0131", "lLoOdDhHi"
_MAY_BE_ACCENTED, _CYRILLIC = r"[\u00c0-\u024f\u0300-\u036f\u1e00-\u1eff]", r"[\u0400-\u052f]"
FUNCTIONS = {
    # Marks make other letters in Cyrillic: a text that has some stays as it is.
    "without_accents(text)": rf"""
        CREATE OR REPLACE FUNCTION without_accents(content text) RETURNS text
        LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
        RETURN CASE WHEN content ~ '{_MAY_BE_ACCENTED}' AND content !~ '{_CYRILLIC}' THEN
            normalize(translate(normalize(content, NFD), U&'{_STROKED}{_MARKS}', '{_PLAIN}'), NFC) ELSE content END
    """,
    # As in 0009. Of a text with accents these are its stems without them, and the stems of its words without them,
    # which may be others; but a stop word stays one.
    "words_of(text, text)": rf"""
        CREATE OR REPLACE FUNCTION words_of(language text, content text) RETURNS tsvector
        LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE AS $$
        DECLARE
            spaced text := content;
            plain text;
            part text;
            found tsvector;
            own tsvector;
            more tsvector;
        BEGIN
            IF octet_length(content) > length(content) THEN
                spaced := public.words_apart(content);
                IF spaced ~ '[{words.LETTERS}]' THEN
                    spaced := public.pairs_of(spaced);
                END IF;
                plain := nullif(public.without_accents(spaced), spaced);
            END IF;
            IF strpos(language, '+') = 0 AND plain IS NULL THEN
                RETURN public.words_in(language, spaced);
            END IF;
            FOREACH part IN ARRAY string_to_array(language, '+') LOOP
                own := public.words_in(part, spaced);
                IF plain IS NOT NULL THEN
                    more := public.words_in(part, plain);
                    more := ts_delete(more, ARRAY(SELECT lexeme FROM unnest(more)
                        WHERE NOT positions && ARRAY(SELECT unnest(positions) FROM unnest(own))));
                    own := CAST(public.without_accents(CAST(own AS text)) AS tsvector);
                    own := own || ts_delete(more, tsvector_to_array(own));
                END IF;
                found := coalesce(found || ts_delete(own, tsvector_to_array(found)), own);
            END LOOP;
            RETURN found;
        END $$
    """,
}


def upgrade() -> None:
    for statement in FUNCTIONS.values():
        op.execute(statement)
    op.execute("GRANT EXECUTE ON FUNCTION without_accents(text) TO backscroll_app, backscroll_search")
    _index_anew()


def downgrade() -> None:
    op.execute(words.WORDS_WITH_ACCENTS)
    op.execute("DROP FUNCTION IF EXISTS without_accents(text)")
    _index_anew()


def _index_anew() -> None:
    words.bind("NO FORCE")
    with concurrently():
        op.execute("UPDATE chats SET words_after = '' WHERE moved_to IS NULL")
        words.index_anew()
    words.bind("FORCE")
