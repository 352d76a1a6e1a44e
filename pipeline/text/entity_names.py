"""Normalize names of entities, and list those that a question may contain."""

import re
from collections.abc import Iterator

from pipeline.text.accents import LETTERS_AND_DIGITS
from pipeline.text.cues import stop_words
from pipeline.text.sentences import UNSPACED

MAX_NAME_CHARS = 80
_MIN_CHARS = 2
_MAX_WORDS = 4
_MAX_UNSPACED_CHARS = 4
_CHARS_READ = 200
_WORD = re.compile(rf"{LETTERS_AND_DIGITS}(?:['’]{LETTERS_AND_DIGITS})*")


def normalized(name: str) -> str:
    """Return the form by which names are compared: one line, no case, no possessive.

    >>> normalized("  Ann’s "), normalized("Santa  Clara")
    ('ann', 'santa clara')
    """
    one_line = " ".join(name.split()).casefold()
    return one_line.removesuffix("'s").removesuffix("’s")[:MAX_NAME_CHARS]


def first_name(name: str, language: str) -> str:
    """Return the first word of a person's name by which they may be called, normalized; empty: there is none.

    >>> first_name("Lena Berger", "english"), first_name("Lena", "english")
    ('lena', '')
    """
    first, _, rest = normalized(name).partition(" ")
    usable = first.isalpha() and len(first) > _MIN_CHARS and first not in stop_words(language).words
    return first if rest and usable else ""


def possible_names(text: str, language: str) -> list[str]:
    """Return every run of up to four words of a question, normalized: the names that it may hold, in any case.

    Of scripts without spaces every run of two to four characters.

    >>> possible_names("Who saw Lena?", "english"), possible_names("王芳?", "chinese")
    (['who saw lena', 'saw lena', 'who saw', 'lena'], ['王芳'])
    """
    return list(dict.fromkeys(_runs(text, language)))


def _runs(text: str, language: str) -> Iterator[str]:
    words = [match[0] for match in _WORD.finditer(text)][:100]
    for length in range(_MAX_WORDS, 0, -1):
        for start in range(len(words) - length, -1, -1):
            run = normalized(" ".join(words[start : start + length]))
            if length > 1 or (len(run) >= _MIN_CHARS and run not in stop_words(language).words):
                yield run
    for unspaced in UNSPACED.findall(text[:_CHARS_READ]):
        for size in range(_MAX_UNSPACED_CHARS, _MIN_CHARS - 1, -1):
            yield from (unspaced[at : at + size] for at in range(len(unspaced) - size + 1))
