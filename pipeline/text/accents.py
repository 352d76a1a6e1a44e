"""What is written around letters: vowels and tones that belong to them, and accents, which many people leave out."""

import re
from collections.abc import Collection
from itertools import groupby
from unicodedata import category, normalize

# of all scripts, with the joiners within words; not what chooses how an emoji looks
_CODES = [
    *(0x200C, 0x200D),
    *(
        code
        for code in range(0x300, 0x11800)
        if category(chr(code)) in ("Mn", "Mc") and not 0xFE00 <= code <= 0xFE0F
    ),
]
_RUNS = [
    [code for _, code in run] for _, run in groupby(enumerate(_CODES), lambda placed: placed[1] - placed[0])
]
# as ranges, which are compared twice as fast
AROUND = "".join(f"{chr(run[0])}-{chr(run[-1])}" for run in _RUNS)
"""Signs that are a part of the letter before them, as in Devanagari, Arabic or Thai; `\\w` has none of them."""
LETTERS = rf"[^\W\d_]++(?:[{AROUND}]++[^\W\d_]*+)*+"
"""A regular expression of a run of letters, each with what is around it."""
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
