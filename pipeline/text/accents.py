"""What is written around letters: vowels and tones that belong to them, and what is not seen or often left out."""

import re
from collections.abc import Collection
from unicodedata import normalize

from schemas.signs import IGNORABLE, JOINERS, MARKS, SELECTORS

AROUND = MARKS + IGNORABLE + SELECTORS + JOINERS
"""Signs that are a part of the letter before them, as in Devanagari, Arabic or Thai, or that are not seen."""
# Hebrew abbreviates with what most people type as a quotation mark or an apostrophe.
_HEBREW_MARK = "[\"'\u2019\u05f3\u05f4](?<=[\u0591-\u05ea].)(?=[\u05d0-\u05ea])"
_MORE = "(?=[\u00ad\u0300-\U000effff])"  # most words end before ASCII, and the long classes need not be tried
LETTERS = rf"[^\W\d_]++(?:(?:{_MORE}[{AROUND}]++|{_HEBREW_MARK})[^\W\d_]++)*+(?:{_MORE}[{MARKS}]++)?+"
"""A regular expression of a run of letters, each with what is around it, up to the last that is seen."""
LETTERS_AND_DIGITS = LETTERS.replace(r"\d", "")
"""The same of letters and digits."""

# The same as in SQL (migrations/first_schema/words.py): marks above and below a letter, and letters with a stroke,
# which have none.
_MARKS = (
    "\u0300\u0301\u0302\u0303\u0304\u0306\u0307\u0308\u0309\u030a\u030b\u030c\u031b\u0323\u0326\u0327\u0328"
)
_STROKED = str.maketrans("łŁøØđĐħĦı", "lLoOdDhHi")
_PLAIN = {**_STROKED, **str.maketrans("", "", _MARKS)}
_ACCENTED = re.compile("[\u00c0-\u024f\u0300-\u036f\u1e00-\u1eff]")
_CYRILLIC = re.compile("[\u0400-\u052f]")
# A Cyrillic letter with its marks, which make other letters, or a mark of another letter.
_MARK = re.compile(f"([\u0400-\u052f][\u0300-\u036f]*)|[{_MARKS}]")
# A character class, or a run of letters and whether the last one is repeated.
_IN_PATTERN = re.compile(r"\[[^\[\]]*\]|(?P<letters>[^\W\d_]+)(?P<repeated>(?=[?*+{]))?")
# A shorter word without its accents often is another word: `où`, `ou`.
_LEAST_LETTERS = 3

_TYPED = re.compile(_HEBREW_MARK)
_NO_PART = re.compile(rf"[{IGNORABLE}{SELECTORS}]|[{JOINERS}](?!\w)")
# Joiners, spaces of no width, Arabic's lengthening, and the vowels of Hebrew and Arabic, but for madda and hamza.
_OPTIONAL = re.compile(
    f"[{JOINERS}\u200b\u0591-\u05bd\u05bf-\u05c2\u05c4-\u05c7\u0610-\u061a\u0640\u064b-\u0652\u0656-\u065f\u0670]"
)
_ALIKE = str.maketrans("’ёآأإىیک", "'еاااييك")  # alef without hamza; yeh and kaf of Arabic and of Persian


def one_spelling(text: str) -> str:
    """Drop what is not seen of words, and write Hebrew's abbreviations, as `צה"ל`, with its own marks."""
    text = _NO_PART.sub("", text.replace("\u200b", " "))
    return _TYPED.sub(lambda mark: "\u05f4" if mark[0] in '"\u05f4' else "\u05f3", text)


def either_spelling(text: str) -> str:
    """Return a text in one spelling and, after it, Hebrew's abbreviations as most people type them."""
    text = one_spelling(text)
    marks = str.maketrans("\u05f3\u05f4", "'\"")
    return " ".join((text, *(word.translate(marks) for word in text.split() if _TYPED.search(word))))


def key(name: str) -> str:
    """Return the form by which names are compared: composed, in lower case, without what many people leave out."""
    if name.isascii():
        return name.casefold()
    plain = one_spelling(_OPTIONAL.sub("", normalize("NFKC", name))).casefold()
    return normalize("NFC", plain).translate(_ALIKE)


def without_accents(text: str) -> str:
    """Return a text without accents, but in Cyrillic, where marks make other letters.

    >>> without_accents("Zoë e José, żółw"), without_accents("Zoë, ёж")
    ('Zoe e Jose, zolw', 'Zoe, ёж')
    """
    if text.isascii() or not _ACCENTED.search(text):
        return text
    apart = normalize("NFD", text)
    if _CYRILLIC.search(apart):
        return normalize("NFC", _MARK.sub(r"\1", apart.translate(_STROKED)))
    return normalize("NFC", apart.translate(_PLAIN))


def words_either_way(words: str, stop_words: Collection[str] = ()) -> str:
    """Add to words, separated by spaces, their spellings without accents, unless one of these is a stop word.

    >>> words_either_way("środa dès", {"des"})
    'środa dès sroda'
    """
    listed = words.split()
    bare = (_bare(word, stop_words) for word in listed)
    return " ".join(dict.fromkeys([*listed, *filter(None, bare)]))


def pattern_either_way(pattern: str, stop_words: Collection[str] = ()) -> str:
    """Let a regular expression match the same letters without accents, unless that makes a word a stop word.

    >>> pattern_either_way("dernière?|décid[ée]|où", {"ou"})
    '(?:dernièr|dernier)e?|(?:décid|decid)[ée]|où'
    """

    def replaced(match: re.Match[str]) -> str:
        letters = match["letters"]
        if letters is None or _bare(letters, stop_words) is None:
            return match[0]
        # a quantifier applies to the last letter only
        last = letters[-1] if match["repeated"] is not None else ""
        return _either(letters.removesuffix(last)) + (last and _either(last))

    return _IN_PATTERN.sub(replaced, pattern)


def _either(letters: str) -> str:
    bare = without_accents(letters)
    return letters if bare == letters else f"(?:{letters}|{bare})"


def _bare(word: str, stop_words: Collection[str]) -> str | None:
    """Return a word without its accents, if it has some and is not another word without them."""
    bare = without_accents(word)
    return None if bare == word or len(bare) < _LEAST_LETTERS or bare in stop_words else bare
