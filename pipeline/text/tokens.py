"""Count a text's tokens for a language model: estimated, unless its own tokenizer is at hand."""

import re
from collections.abc import Callable
from dataclasses import dataclass

# Tokens of a text on lines of its own.
Count = Callable[[str], int]

# What English shortens after an apostrophe; runs of ASCII letters; of ASCII digits; of other letters, where
# tokenizers know fewer and shorter pieces; and any other single character but white space, which joins the token
# after it.
_SHORTENED = r"['’](?i:s|t|m|d|re|ve|ll)\b"
_PIECES = re.compile(rf"{_SHORTENED}|(?P<word>[A-Za-z]+)|(?P<digits>[0-9]+)|(?P<other>[^\W\d_]+)|[^\s]")
# The same where there are no other letters, each match one token: much faster, and most lines are such.
_TOKENS = re.compile(rf"{_SHORTENED}|[A-Za-z]{{1,7}}|[0-9]{{1,3}}|[^\s]")
_OTHER_LETTER = re.compile(r"[^\W\d_A-Za-z]")
_LINE_ENDS = re.compile(r"\n+")
_LETTERS_PER_TOKEN = 7
_DIGITS_PER_TOKEN = 3
_WIDE_FROM = 0x0E00  # from Thai on (also kana, ideographs, Hangul) a character is about a token of its own


def estimate(text: str) -> int:
    """Estimate the number of tokens of a text.

    The sum over its pieces: ceil(n / 7) for a run of n ASCII letters, ceil(n / 3) for n digits, for n other letters
    ceil(n / 2) below U+0E00 and n from there on, 1 for an English contraction ('s, 'll) and any other visible
    character.

    >>> estimate("We'll take the plumber from Almada for 240 €.")
    11
    """
    if text.isascii() or not _OTHER_LETTER.search(text):
        return len(_TOKENS.findall(text))
    return sum(_tokens_of(match) for match in _PIECES.finditer(text))


def estimate_line(text: str) -> int:
    """Estimate the number of tokens of a text on lines of its own, line ends included.

    >>> estimate_line("one\\n\\ntwo") == estimate_line("one") + estimate_line("two") == 4
    True
    """
    ends = len(_LINE_ENDS.findall(text)) if "\n" in text else 0
    return estimate(text) + ends + 1 if text else 0


def _tokens_of(match: re.Match[str]) -> int:
    size = match.end() - match.start()
    if match.lastgroup == "word":
        return -(-size // _LETTERS_PER_TOKEN)
    if match.lastgroup == "digits":
        return -(-size // _DIGITS_PER_TOKEN)
    if match.lastgroup == "other":
        return size if ord(match[0][0]) >= _WIDE_FROM else -(-size // 2)
    return 1


@dataclass(frozen=True, kw_only=True)
class Tokenizer:
    """A counter of tokens, and its name in answers; lines counted apart must add up to no less than the text."""

    name: str
    count: Count


ESTIMATE = Tokenizer(name="estimate", count=estimate_line)


def longest(low: int, high: int, fits: Callable[[int], bool]) -> int:
    """Return the largest number from `low`, which fits, to `high` that fits, where all below one that fits do."""
    while low < high:
        middle = (low + high + 1) // 2
        if fits(middle):
            low = middle
        else:
            high = middle - 1
    return low
