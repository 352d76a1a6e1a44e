"""Names of entities: how they are compared, which of what a text names is one, of what kind it is, where it stands."""

import re
from collections.abc import Collection, Iterable, Iterator

from pipeline.text.caches import pattern
from pipeline.text.calendar import MONTHS
from pipeline.text.cues import stop_words
from schemas.entities import EntityKind

MAX_NAME_CHARS = 80
_MIN_CHARS = 2
# A name in lower case is only read as one if it is no shorter: "will" and "may" are other words.
_MIN_LOWER_CASE = 4
_MAX_WORDS = 4
# Amounts, dates, times and links, which `entities` finds as well.
_NO_NAME = re.compile(
    rf"^[\d€$£¥+]|^https?://|@[\w-]+\.|^(?:{'|'.join(month[:3] for month in MONTHS)})\w* \d", re.IGNORECASE
)
_THING = re.compile(r"^[@#]|[_\d/]|\w\.\w|^[a-z]+[A-Z]")
_ORGANIZATION = re.compile(
    r"\b(?:GmbH|AG|Inc|Ltd|LLC|Corp|Co|e\.V|Bank|University|Universität|School|Schule|College|Institute?|Club|Verein"
    r"|Company|Foundation|Stiftung|Council|Ministry|Hospital)\b"
)
_BEFORE_A_PLACE = r"\b(?:in|near|nach|aus|em|visit|visited|visiting|live in|moved to|trip to|flight to) "
_BEFORE_AN_ORGANIZATION = (
    r"\b(?:work|works|worked|working|job|arbeite|arbeitet|trabalho|trabalha) (?:at|for|bei|na|no) "
)
_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")


def normalized(name: str) -> str:
    """Return the form by which names are compared: one line, no case, no possessive.

    >>> normalized("  Ann’s "), normalized("Santa  Clara")
    ('ann', 'santa clara')
    """
    one_line = " ".join(name.split()).casefold()
    return one_line.removesuffix("'s").removesuffix("’s")[:MAX_NAME_CHARS]


def is_name(found: str, language: str) -> bool:
    """Tell whether something that a text names is an entity, not an amount, a date or a link."""
    name = normalized(found)
    return len(name) >= _MIN_CHARS and not _NO_NAME.search(found) and name not in stop_words(language).words


def kind_of(name: str, texts: Iterable[str]) -> EntityKind:
    """Return the kind of an entity that is no known person, by its name and the words before it in the texts.

    >>> kind_of("Porto", ["she is in Porto"]), kind_of("Lena", ["ask Lena"]), kind_of("Kranz GmbH", [])
    ('place', 'unknown', 'organization')
    """
    if _ORGANIZATION.search(name):
        return "organization"
    if _THING.search(name):
        return "thing"
    written = re.escape(name)
    place = pattern(f"(?i:{_BEFORE_A_PLACE}){written}")
    organization = pattern(f"(?i:{_BEFORE_AN_ORGANIZATION}){written}")
    said = [text for text in texts if name in text]
    if any(organization.search(text) for text in said):
        return "organization"
    return "place" if any(place.search(text) for text in said) else "unknown"


def short_forms(name: str, language: str) -> list[str]:
    """Return the short forms by which a person of this name may be called: the first name.

    >>> short_forms("Lena Berger", "english"), short_forms("Lena", "english")
    (['lena'], [])
    """
    first, _, rest = normalized(name).partition(" ")
    return (
        [first]
        if rest and first.isalpha() and len(first) > _MIN_CHARS and first not in stop_words(language).words
        else []
    )


class Mentions:
    """Finds which of some normalized names a text mentions."""

    def __init__(self, names: Collection[str]) -> None:
        longest_first = sorted(names, key=lambda name: (-len(name), name))
        either = "|".join(map(re.escape, longest_first))
        self._pattern = pattern(rf"(?<!\w)(?:{either})(?!\w)", re.IGNORECASE) if names else None

    def of(self, text: str) -> list[str]:
        """Return the names that a text mentions, each once, in order; a short one must have a capital."""
        if self._pattern is None:
            return []
        matches = (match[0] for match in self._pattern.finditer(text))
        return list(dict.fromkeys(normalized(found) for found in matches if _is_written(found)))


def _is_written(found: str) -> bool:
    return (
        found[:1] in "@#"
        or any(map(str.isupper, found))
        or len(found) >= _MIN_LOWER_CASE
        or not found.isalpha()
    )


def asked(text: str, language: str) -> list[str]:
    """Return every run of up to four words of a question, normalized: the names that it may hold, in any case.

    >>> asked("Who saw Lena?", "english")
    ['who saw lena', 'saw lena', 'who saw', 'lena']
    """
    return list(dict.fromkeys(_runs(text, language)))


def _runs(text: str, language: str) -> Iterator[str]:
    words = [match[0] for match in _WORD.finditer(text)][:100]
    for length in range(_MAX_WORDS, 0, -1):
        for start in range(len(words) - length, -1, -1):
            run = normalized(" ".join(words[start : start + length]))
            if length > 1 or (len(run) >= _MIN_CHARS and run not in stop_words(language).words):
                yield run
