"""Languages, and how a text's words are indexed and looked up in them."""

_STEMMED = (
    "arabic armenian basque catalan danish dutch english finnish french german greek hindi hungarian indonesian irish "
    "italian lithuanian nepali norwegian portuguese romanian russian serbian spanish swedish tamil turkish yiddish"
).split()
_UNSTEMMED = (
    "simple afrikaans albanian azerbaijani belarusian bengali bulgarian burmese chinese croatian czech estonian "
    "galician georgian gujarati hebrew icelandic japanese kannada kazakh khmer korean lao latvian macedonian malay "
    "malayalam marathi persian polish punjabi slovak slovenian swahili tagalog telugu thai ukrainian urdu vietnamese"
).split()
_KNOWN = ", ".join(f"'{name}'" for name in (*_STEMMED, *_UNSTEMMED))
_CONFIGURATIONS = " ".join(f"WHEN '{name}' THEN 'pg_catalog.{name}'::regconfig" for name in _STEMMED)

# Letters of scripts without spaces: Thai, Lao, Myanmar, Khmer, Han, kana; and Hangul, whose words have endings. What is
# a letter must not depend on the server's locale, so they are listed.
_LETTERS = (
    r"\u0e01-\u0e30\u0e32\u0e33\u0e40-\u0e46\u0e81-\u0eb0\u0eb2\u0eb3\u0ebd-\u0ec6\u0edc-\u0edf\u1000-\u102a\u103f"
    r"\u1050-\u1055\u105a-\u105d\u1061\u1065\u1066\u106e-\u1070\u1075-\u1081\u108e\u1780-\u17b3\u17d7\u17dc"
    r"\u3005-\u3007\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"
    r"\uac00-\ud7a3\uf900-\ufaff\uff66-\uff9d\U00020000-\U0003ffff"
)
# Vowels and tones that are written around a letter and belong to it.
_MARKS = (
    r"\u0e31\u0e34-\u0e3a\u0e47-\u0e4e\u0eb1\u0eb4-\u0ebc\u0ec8-\u0ece\u102b-\u103e\u1056-\u1059\u105e-\u1060"
    r"\u1062-\u1064\u1067-\u106d\u1071-\u1074\u1082-\u108d\u108f\u109a-\u109d\u17b4-\u17d3\u17dd\u3099\u309a\uff9e\uff9f"
)
_LETTER = f"[{_LETTERS}][{_MARKS}]*"
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
# What stands above or below a letter: grave, acute, circumflex, tilde, macron, breve, dot, diaeresis, hook, ring,
# double acute, caron, horn, dot below, comma below, cedilla, ogonek. A letter with a stroke has none, and is replaced.
_ACCENTS = r"\0300\0301\0302\0303\0304\0306\0307\0308\0309\030a\030b\030c\031b\0323\0326\0327\0328"
_ACCENT = _ACCENTS.replace("\\0", r"\u0")
_STROKED, _PLAIN = r"\0142\0141\00f8\00d8\0111\0110\0127\0126\0131", "lLoOdDhHi"
_MAY_BE_ACCENTED, _CYRILLIC = r"[\u00c0-\u024f\u0300-\u036f\u1e00-\u1eff]", r"[\u0400-\u052f]"

_FUNCTIONS = rf"""
-- Separate words as the parser would in a locale that knows what a letter is.
CREATE FUNCTION words_apart(content text) RETURNS text LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN regexp_replace(
    regexp_replace(translate(content, U&'{_APOSTROPHES}{_INVISIBLE}', ''''''''''),
        '([{_EMOJI}])[{_MODIFIERS}]*', ' \1 ', 'g'),
    '[{_SEPARATORS}]+', ' ', 'g');

-- Each run is cut after its first letter, each later letter but the last is written twice, and the cut is closed: that
-- is one pass each, where looking behind would begin at the start of the text for each letter.
CREATE FUNCTION pairs_of(content text) RETURNS text LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN translate(regexp_replace(
    regexp_replace(translate(content, chr(2), ' '), '({_LETTER})([{_LETTERS}{_MARKS}]*)', E' \\1\x02\\2 ', 'g'),
    '({_LETTER})(?=[{_LETTERS}])', '\1 \1', 'g'), chr(2), '');

-- Not strict: a strict one would not be put in line.
CREATE FUNCTION words_in(language text, content text) RETURNS tsvector LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN to_tsvector(CASE language {_CONFIGURATIONS} ELSE 'pg_catalog.simple'::regconfig END, content);

-- In Cyrillic marks make other letters: a letter with its marks stays as it is.
CREATE FUNCTION without_accents(content text) RETURNS text LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN CASE WHEN content !~ '{_MAY_BE_ACCENTED}' THEN content
    WHEN content ~ '{_CYRILLIC}' THEN
        normalize(regexp_replace(translate(normalize(content, NFD), U&'{_STROKED}', '{_PLAIN}'),
            '({_CYRILLIC}[\u0300-\u036f]*)|[{_ACCENT}]', '\1', 'g'), NFC)
    ELSE normalize(translate(normalize(content, NFD), U&'{_STROKED}{_ACCENTS}', '{_PLAIN}'), NFC) END;

-- A text as it is indexed and looked up. Of several languages the later ones add what the earlier ones have not. Of a
-- text with accents these are its stems without them, and the stems of its words without them, which may be others; but
-- a stop word stays one, and an accent that stands alone is no word.
CREATE FUNCTION words_of(language text, content text) RETURNS tsvector
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
        IF spaced ~ '[{_LETTERS}]' THEN
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
            IF CAST(own AS text) ~ '''[\u0300-\u036f]' THEN
                own := ts_delete(own, ARRAY(SELECT lexeme FROM unnest(own)
                    WHERE public.without_accents(lexeme) = ''));
            END IF;
            own := CAST(public.without_accents(CAST(own AS text)) AS tsvector);
            own := own || ts_delete(more, tsvector_to_array(own));
        END IF;
        found := coalesce(found || ts_delete(own, tsvector_to_array(found)), own);
    END LOOP;
    RETURN found;
END $$;

CREATE FUNCTION note_words() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.tsv := public.words_of(NEW.language, NEW.content);
    RETURN NEW;
END $$;
CREATE FUNCTION note_search_words() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.tsv := public.words_of(NEW.language, NEW.search_text);
    RETURN NEW;
END $$;
CREATE TRIGGER note_words BEFORE INSERT OR UPDATE OF content, language ON messages
    FOR EACH ROW EXECUTE FUNCTION note_words();
CREATE TRIGGER note_words BEFORE INSERT OR UPDATE OF content, language ON memories
    FOR EACH ROW EXECUTE FUNCTION note_words();
CREATE TRIGGER note_words BEFORE INSERT OR UPDATE OF search_text, language ON conversation_sessions
    FOR EACH ROW EXECUTE FUNCTION note_search_words();
"""
# A chat has up to three languages, as in `german+english`.
_PERMIT = f"""
ALTER TABLE {{table}} ADD CONSTRAINT {{table}}_language_check CHECK (
    string_to_array(language, '+') <@ ARRAY[{_KNOWN}]
    AND cardinality(string_to_array(language, '+')) BETWEEN 1 AND 3);
"""
SQL = _FUNCTIONS + "".join(
    _PERMIT.format(table=table) for table in ("chats", "messages", "conversation_sessions", "memories")
)
