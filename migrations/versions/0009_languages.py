"""Languages that Postgres does not stem, several in one chat, and words of scripts that are written without spaces.

Revision: 0009
"""

from alembic import op

from migrations import words
from migrations.concurrently import concurrently
from migrations.first_schema import functions
from migrations.first_schema.columns import tsv
from migrations.words import LETTERS

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

_STEMMED = (
    "arabic armenian basque catalan danish dutch english finnish french german greek hindi hungarian indonesian irish "
    "italian lithuanian nepali norwegian portuguese romanian russian serbian spanish swedish tamil turkish yiddish"
).split()
_UNSTEMMED = (
    "simple afrikaans albanian azerbaijani belarusian bengali bulgarian burmese chinese croatian czech estonian "
    "galician georgian gujarati hebrew icelandic japanese kannada kazakh khmer korean lao latvian macedonian malay "
    "malayalam marathi persian polish punjabi slovak slovenian swahili tagalog telugu thai ukrainian urdu vietnamese"
).split()
# by table the text that its `tsv` is made of, if it has one
TEXTS: dict[str, str | None] = {
    "chats": None,
    "messages": "content",
    "conversation_sessions": "search_text",
    "memories": "content",
    "rollups": "search_text",
}
# Vowels and tones that are written around a letter and belong to it.
_MARKS = (
    r"\u0e31\u0e34-\u0e3a\u0e47-\u0e4e\u0eb1\u0eb4-\u0ebc\u0ec8-\u0ece\u102b-\u103e\u1056-\u1059\u105e-\u1060"
    r"\u1062-\u1064\u1067-\u106d\u1071-\u1074\u1082-\u108d\u108f\u109a-\u109d\u17b4-\u17d3\u17dd\u3099\u309a\uff9e\uff9f"
)
# Punctuation, spaces and symbols beyond ASCII, which the parser takes for letters in the locale C. Zero-width joiners
# stay: some scripts write them within words.
_SEPARATORS = (
    r"\u0001-\u0008\u000e-\u001f\u007f-\u00a9\u00ab\u00ac\u00ae-\u00b1\u00b4\u00b6-\u00b8\u00bb\u00bf\u00d7\u00f7\u037e\u0387"
    r"\u055a-\u055f\u0589\u058a\u05be\u05c0\u05c3\u05c6\u0609-\u060d\u061b-\u061f\u066a-\u066d\u06d4\u0964\u0965\u0970"
    r"\u0e3f\u0e4f\u0e5a\u0e5b\u1361-\u1368\u2000-\u200b\u200e-\u205f\u2062-\u206f\u207a-\u207e\u208a-\u208e"
    r"\u20a0-\u20cf\u2190-\u245f\u2500-\u25ff\u2e00-\u2e7f\u3000-\u3004\u3008-\u3020\u3030\u303d-\u303f\u30a0\u30fb"
    r"\ufe0e\ufe0f\ufe10-\ufe19\ufe30-\ufe6b\ufeff\uff01-\uff0f\uff1a-\uff20\uff3b-\uff40\uff5b-\uff65\ufff9-\ufffd"
)
# Each emoji is a word; modifiers of skin tone and joiners after it are dropped.
_EMOJI = r"\u2600-\u27bf\u2b00-\u2bff\U0001f000-\U0001f3fa\U0001f400-\U0001faff"
_MODIFIERS = r"\u200d\ufe0f\U0001f3fb-\U0001f3ff"
# Typographic apostrophes become the one of ASCII; soft hyphens and word joiners are removed.
_APOSTROPHES, _INVISIBLE = r"\2018\2019\201b\02bc", r"\00ad\2060"
_LETTER = f"[{LETTERS}][{_MARKS}]*"
FUNCTIONS = {
    # Separate words as the parser would in a locale that knows what a letter is.
    "words_apart(text)": rf"""
        CREATE OR REPLACE FUNCTION words_apart(content text) RETURNS text LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
        RETURN regexp_replace(
            regexp_replace(translate(content, U&'{_APOSTROPHES}{_INVISIBLE}', ''''''''''),
                '([{_EMOJI}])[{_MODIFIERS}]*', ' \1 ', 'g'),
            '[{_SEPARATORS}]+', ' ', 'g')
    """,
    # Each run is cut after its first letter, each later letter but the last is written twice, and the cut is closed:
    # that is one pass each, where looking behind would begin at the start of the text for each letter.
    "pairs_of(text)": rf"""
        CREATE OR REPLACE FUNCTION pairs_of(content text) RETURNS text LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
        RETURN translate(regexp_replace(
            regexp_replace(translate(content, chr(2), ' '), '({_LETTER})([{LETTERS}{_MARKS}]*)', E' \\1\x02\\2 ', 'g'),
            '({_LETTER})(?=[{LETTERS}])', '\1 \1', 'g'), chr(2), '')
    """,
    # Not strict: a strict one would not be put in line.
    "words_in(text, text)": """
        CREATE OR REPLACE FUNCTION words_in(language text, content text) RETURNS tsvector
        LANGUAGE sql IMMUTABLE PARALLEL SAFE
        RETURN to_tsvector(CASE language {} ELSE 'pg_catalog.simple'::regconfig END, content)
    """.format(" ".join(f"WHEN '{name}' THEN 'pg_catalog.{name}'::regconfig" for name in _STEMMED)),
    # A text as it is indexed and looked up. Of several languages the later ones add what the earlier ones have not.
    "words_of(text, text)": words.WORDS_WITH_ACCENTS,
    "note_words()": """
        CREATE OR REPLACE FUNCTION note_words() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            NEW.tsv := public.words_of(NEW.language, NEW.content);
            RETURN NEW;
        END $$
    """,
    "note_search_words()": """
        CREATE OR REPLACE FUNCTION note_search_words() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            NEW.tsv := public.words_of(NEW.language, NEW.search_text);
            RETURN NEW;
        END $$
    """,
}
_USED = ("words_apart(text)", "pairs_of(text)", "words_in(text, text)", "words_of(text, text)")


def upgrade() -> None:
    for signature, statement in FUNCTIONS.items():
        op.execute(statement)
        if signature in _USED:
            op.execute(f"GRANT EXECUTE ON FUNCTION {signature} TO backscroll_app, backscroll_search")
    for table, column in TEXTS.items():
        _permit(table)
        if column is not None:
            # a change of the catalog only; the trigger is there when others see it
            op.execute(f"ALTER TABLE {table} ALTER COLUMN tsv DROP EXPRESSION IF EXISTS")
            function = "note_words" if column == "content" else "note_search_words"
            op.execute(f"""
                CREATE OR REPLACE TRIGGER note_words BEFORE INSERT OR UPDATE OF {column}, language ON {table}
                FOR EACH ROW EXECUTE FUNCTION {function}()
            """)
    op.execute("""
        ALTER TABLE chats
            -- who says what its language is; none: nobody
            ADD COLUMN IF NOT EXISTS language_by text CHECK (language_by IN ('declared', 'detected')),
            -- how many messages it had when its language was detected last
            ADD COLUMN IF NOT EXISTS language_at bigint NOT NULL DEFAULT 0,
            -- up to which message, by external id, its words are indexed anew; none: all are in its language.
            -- What is there by now is to be indexed anew.
            ADD COLUMN IF NOT EXISTS words_after text COLLATE "C" DEFAULT ''
    """)
    op.execute("ALTER TABLE chats ALTER COLUMN words_after DROP DEFAULT")
    words.bind("NO FORCE")
    with concurrently():
        op.execute(
            "UPDATE chats SET language_by = 'declared' WHERE language <> 'english' AND language_by IS NULL"
        )
        words.index_anew()
        # each reads its table, and nobody waits for it
        for table in TEXTS:
            op.execute(f"ALTER TABLE {table} VALIDATE CONSTRAINT {table}_language_check")
    words.bind("FORCE")


def downgrade() -> None:
    with_text = {table: column for table, column in TEXTS.items() if column is not None}
    for table in TEXTS:
        op.execute(f"ALTER TABLE {table} NO FORCE ROW LEVEL SECURITY")
        known = ", ".join(f"'{name}'" for name in ["simple", *_STEMMED])
        op.execute(f"UPDATE {table} SET language = 'simple' WHERE language NOT IN ({known})")
        op.execute(f"ALTER TABLE {table} FORCE ROW LEVEL SECURITY")
        op.execute(f"ALTER TABLE {table} DROP CONSTRAINT {table}_language_check")
        op.execute(f"ALTER TABLE {table} ADD CONSTRAINT {table}_language_check CHECK (language IN ({known}))")
    for table, column in with_text.items():
        op.execute(f"DROP TRIGGER note_words ON {table}")
        op.execute(f"ALTER TABLE {table} DROP COLUMN tsv")
        op.execute(f"ALTER TABLE {table} ADD COLUMN {tsv(column)}")
    op.execute(f"CREATE INDEX {functions.INDEXES[0]}")
    op.execute("GRANT SELECT (tsv) ON messages TO backscroll_search")
    for signature in reversed(FUNCTIONS):
        op.execute(f"DROP FUNCTION {signature}")
    op.execute("ALTER TABLE chats DROP COLUMN language_by, DROP COLUMN language_at, DROP COLUMN words_after")
    op.execute("ALTER TABLE jobs NO FORCE ROW LEVEL SECURITY")
    op.execute("DELETE FROM jobs WHERE kind = 'language'")
    op.execute("ALTER TABLE jobs FORCE ROW LEVEL SECURITY")


def _permit(table: str) -> None:
    """Permit the languages of this version and up to three of them together; what is there is looked at later."""
    known = ", ".join(f"'{name}'" for name in [*_STEMMED, *_UNSTEMMED])
    op.execute(f"""
        ALTER TABLE {table} DROP CONSTRAINT IF EXISTS {table}_language_check,
            ADD CONSTRAINT {table}_language_check CHECK (string_to_array(language, '+') <@ ARRAY[{known}]
                AND cardinality(string_to_array(language, '+')) BETWEEN 1 AND 3) NOT VALID
    """)
