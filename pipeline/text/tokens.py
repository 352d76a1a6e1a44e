"""Count a text's tokens for a language model, and split long text into chunks that fit one."""

import re
from collections.abc import Callable
from dataclasses import dataclass

from schemas.signs import border

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


# Where a text may be cut, best first: between paragraphs, after a line or sentence, between words.
_BREAKS = (
    re.compile(r"\n[^\S\n]*\n\s*"),
    re.compile(
        "(?<=[.!?…\u061f\u0964])[\"'\u201d\u2019»)\\]]*+\\s+|\\n+|[\u3002\uff01\uff1f]+[\u300d\u300f\u201d]*"
    ),
    re.compile(r"\s+"),
)
_LONGEST_BREAK = 8  # characters; the end of a longer one is found all the same
_CHARS_PER_TOKEN = 4  # the first guess of how far a chunk reaches


@dataclass(frozen=True, kw_only=True)
class Chunk:
    """A part of a text: `text` is `source[start:end]`, with only white space between chunks."""

    start: int
    end: int
    text: str


def split_chunks(
    text: str, *, limit: int, overlap: int, count: Callable[[str], int] = estimate
) -> list[Chunk]:
    """Split a text into chunks of at most `limit` tokens by `count`, in order.

    A chunk ends after a paragraph if one ends in its second half, else after a sentence, a word, or at the limit. Each
    but the first repeats up to `overlap` tokens of the one before it, if possible from the beginning of a sentence.
    White space has no chunks. `count` must be at most `limit` for any character. Raises `ValueError` unless 0 <=
    overlap <= limit / 2 and limit >= 1.
    """
    if limit < 1 or not 0 <= overlap <= limit / 2:
        raise ValueError(f"chunks need limit >= 1 and 0 <= overlap <= limit / 2, not {limit} and {overlap}")
    chunks: list[Chunk] = []
    start, done, length = _skip_space(text, 0), 0, len(text.rstrip())
    while done < length:
        reach = _reach(text, start, limit, count)
        end = length if reach >= length else _best_break(text, start, done, reach)
        while end > start + 1 and count(text[start:end].rstrip()) > limit:
            end = max(border(text, end - 1), start + 1)  # parts of a word may have more pieces than it
        if end <= done:
            start = _skip_space(text, done)  # with the overlap nothing new would fit
            continue
        inner = text[start:end].rstrip()
        chunks.append(Chunk(start=start, end=start + len(inner), text=inner))
        done = _skip_space(text, end)
        start = _overlap_start(text, start, end, overlap, count) if overlap else done
    return chunks


def _skip_space(text: str, position: int) -> int:
    while position < len(text) and text[position].isspace():
        position += 1
    return position


def _reach(text: str, start: int, limit: int, count: Callable[[str], int]) -> int:
    """Return the furthest end for which the text from `start` still fits."""
    size, fits = limit * _CHARS_PER_TOKEN, start + 1
    while start + size < len(text) and count(text[start : start + size]) <= limit:
        fits, size = start + size, size * 2
    high = min(start + size, len(text))
    return longest(fits, high, lambda end: count(text[start:end]) <= limit)


def _best_break(text: str, start: int, done: int, reach: int) -> int:
    """Return the last break of the best kind in the second half of what fits, after what is done."""
    earliest = max((start + reach) // 2, done + 1)
    for kind in _BREAKS:
        # A break begins before its end: at a full stop or a closing quote.
        matches = kind.finditer(text, max(earliest - _LONGEST_BREAK, start), reach + 1)
        ends = [match.end() for match in matches if earliest <= match.end() <= reach]
        if ends:
            return ends[-1]
    place = border(text, reach)
    return place if place > done else reach


def _overlap_start(text: str, start: int, end: int, overlap: int, count: Callable[[str], int]) -> int:
    """Return where the next chunk begins: at most `overlap` tokens before `end`, and after `start`."""
    low = end - longest(0, end - start - 1, lambda size: count(text[end - size : end]) <= overlap)
    for kind in _BREAKS:
        for match in kind.finditer(text, max(low - _LONGEST_BREAK, start), end):
            # a paragraph may begin with white space of its own
            if low <= match.end() and (begins := _skip_space(text, match.end())) < end:
                return begins
    return _skip_space(text, end)
