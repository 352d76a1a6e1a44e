"""Languages of chats: their names, their codes, and those that Postgres stems.

`migrations/first_schema/words.py` has the same names: a language is added here and in a migration.
"""

CONFIGURATIONS = tuple(
    """
    simple arabic armenian basque catalan danish dutch english finnish french german greek hindi hungarian
    indonesian irish italian lithuanian nepali norwegian portuguese romanian russian serbian spanish swedish
    tamil turkish yiddish
    """.split()
)
"""Postgres's text search configurations; `simple` splits a text into words and leaves them as they are."""

# ISO 639 codes. Norwegian has three.
_CODES = """
ar:arabic hy:armenian eu:basque ca:catalan da:danish nl:dutch en:english fi:finnish fr:french de:german
el:greek hi:hindi hu:hungarian id:indonesian ga:irish it:italian lt:lithuanian ne:nepali no:norwegian
nb:norwegian nn:norwegian pt:portuguese ro:romanian ru:russian sr:serbian es:spanish sv:swedish ta:tamil
tr:turkish yi:yiddish af:afrikaans sq:albanian az:azerbaijani be:belarusian bn:bengali bg:bulgarian
my:burmese zh:chinese hr:croatian cs:czech et:estonian gl:galician ka:georgian gu:gujarati he:hebrew
is:icelandic ja:japanese kn:kannada kk:kazakh km:khmer ko:korean lo:lao lv:latvian mk:macedonian
ms:malay ml:malayalam mr:marathi fa:persian pl:polish pa:punjabi sk:slovak sl:slovenian sw:swahili
tl:tagalog te:telugu th:thai uk:ukrainian ur:urdu vi:vietnamese
"""
CODES = {code: name for code, _, name in (entry.partition(":") for entry in _CODES.split())}

NON_LATIN = frozenset(
    """
    arabic armenian greek hindi nepali russian tamil yiddish belarusian bengali bulgarian burmese chinese
    georgian gujarati hebrew japanese kannada kazakh khmer korean lao macedonian malayalam marathi persian
    punjabi telugu thai ukrainian urdu
    """.split()
)
"""Languages that are not written in Latin letters."""

# Those without a configuration are indexed as `simple`, scripts without spaces by pairs of characters.
LANGUAGES = (*CONFIGURATIONS, *sorted({*CODES.values()}.difference(CONFIGURATIONS)))
DEFAULT_LANGUAGE = "english"
AUTO = "auto"
"""In place of a language: detect it."""
MAX_PARTS = 3
"""Languages of one chat, as in `german+english`."""

_KNOWN = frozenset(LANGUAGES)


def normal(value: str) -> str:
    """Return a language, or several joined by `+`, by name. Raises `ValueError` for what is unknown.

    >>> normal("de"), normal("pt-BR"), normal("German + en+german")
    ('german', 'portuguese', 'german+english')
    """
    parts = list(dict.fromkeys(_named(part.strip()) for part in value.lower().split("+")))
    if len(parts) > MAX_PARTS:
        raise ValueError(f"{value!r} joins more than {MAX_PARTS} languages")
    return "+".join(parts)


def parts_of(language: str) -> tuple[str, ...]:
    """Return the parts of a combined language.

    >>> parts_of("german+english"), parts_of("thai")
    (('german', 'english'), ('thai',))
    """
    return tuple(language.split("+"))


def spoken(language: str) -> str:
    """Return a language as a sentence names it.

    >>> spoken("german+english")
    'German and English'
    """
    return " and ".join(part.capitalize() for part in parts_of(language))


def _named(part: str) -> str:
    name = CODES.get(part.replace("_", "-").partition("-")[0], part)
    if name not in _KNOWN:
        raise ValueError(f"{part!r} is not one of {', '.join(LANGUAGES)}, nor an ISO 639 code of one")
    return name
