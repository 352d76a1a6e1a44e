"""Count a text's tokens for a language model: an estimate, unless its own tokenizer is available."""

import re
from collections.abc import Callable
from dataclasses import dataclass

# Tokens of a text on lines of its own.
Count = Callable[[str], int]

# Each match is a token: what English shortens after an apostrophe; up to 7 ASCII letters; up to 3 ASCII digits; any
# other single character but white space, which joins the token after it.
_TOKENS = re.compile(r"['’](?i:s|t|m|d|re|ve|ll)\b|[A-Za-z]{1,7}|[0-9]{1,3}|[^\s]")
# A run from the first letter that is not ASCII on: there tokenizers know fewer and shorter pieces.
_RUN = re.compile(r"([^\W\d_A-Za-z][^\W\d_]*)")
_LINE_ENDS = re.compile(r"\n+")
_WIDE_FROM = "\u0e00"  # from Thai on (also kana, ideographs, Hangul) a character is about a token of its own


def estimate(text: str) -> int:
    """Estimate the number of tokens of a text.

    The sum over its pieces: ceil(n / 7) for a run of n ASCII letters, ceil(n / 3) for n digits, for n other letters
    ceil(n / 2) below U+0E00 and n from there on, 1 for an English contraction ('s, 'll) and any other visible
    character.

    >>> estimate("We'll take the plumber from Almada for 240 €.")
    11
    """
    if text.isascii():
        return len(_TOKENS.findall(text))
    # few calls for the whole text, which may have megabytes; `_` takes the place of each run, as one letter
    parts = _RUN.split(text)
    runs = parts[1::2]
    other_tokens = len(_TOKENS.findall("_".join(parts[::2]))) - len(runs)
    return other_tokens + sum(len(run) if run[0] >= _WIDE_FROM else (len(run) + 1) // 2 for run in runs)


def estimate_line(text: str) -> int:
    """Estimate the number of tokens of a text on lines of its own, line ends included.

    >>> estimate_line("one\\n\\ntwo") == estimate_line("one") + estimate_line("two") == 4
    True
    """
    ends = len(_LINE_ENDS.findall(text)) if "\n" in text else 0
    return estimate(text) + ends + 1 if text else 0


@dataclass(frozen=True, kw_only=True)
class Tokenizer:
    """A counter of tokens, and its name in answers; lines counted apart must add up to no less than the text."""

    name: str
    count: Count


ESTIMATE = Tokenizer(name="estimate", count=estimate_line)


def longest(low: int, high: int, fits: Callable[[int], bool]) -> int:
    """Return the largest number from `low` to `high` that fits; `low` does, and so do all below one that fits."""
    while low < high:
        middle = (low + high + 1) // 2
        if fits(middle):
            low = middle
        else:
            high = middle - 1
    return low
