"""How many tokens a text is for a language model: estimated, unless its own tokenizer is at hand."""

import re
from collections.abc import Callable
from dataclasses import dataclass

# Tokens of a text that stands on lines of its own.
Count = Callable[[str], int]

# Runs of ASCII letters; of ASCII digits; of other letters, where tokenizers know fewer and shorter pieces;
# and any other single character but white space, which joins the token after it.
_PIECES = re.compile(r"(?P<word>[A-Za-z]+)|(?P<digits>[0-9]+)|(?P<other>[^\W\d_]+)|[^\s]")
# The same where there are no other letters, each match one token: much faster, and most lines are such.
_TOKENS = re.compile(r"[A-Za-z]{1,6}|[0-9]{1,3}|[^\s]")
_OTHER_LETTER = re.compile(r"[^\W\d_A-Za-z]")
_LETTERS_PER_TOKEN = 6
_DIGITS_PER_TOKEN = 3
_WIDE_FROM = 0x0E00  # from Thai on (also kana, ideographs, Hangul) a character is about a token of its own


def estimate(text: str) -> int:
    """The estimated number of tokens.

    The sum over the text's pieces: a run of n ASCII letters is ceil(n / 6), a run of n digits ceil(n / 3), a
    run of n other letters ceil(n / 2) below U+0E00 and n from there on, and every other character that is not
    white space is 1. For English that is some 1.3 tokens a word, on the high side of what the tokenizers in
    use say, so that a budget kept by estimate is kept in truth.

    >>> estimate("We take the plumber from Almada for 240 €.")
    11
    """
    if not _OTHER_LETTER.search(text):
        return len(_TOKENS.findall(text))
    return sum(_tokens_of(match) for match in _PIECES.finditer(text))


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
    """What counts tokens, by the name that an answer gives it.

    The tokens of lines, added up, must be no fewer than those of the lines as one text.
    """

    name: str
    count: Count


ESTIMATE = Tokenizer(name="estimate", count=estimate)
