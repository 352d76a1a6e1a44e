"""Shorten a text to a number of characters or tokens, on one line where it must be."""

import re
from collections.abc import Iterable
from itertools import pairwise

from pipeline.text.fencing import harmless, visible
from pipeline.text.tokens import Count, estimate_line, longest
from schemas.signs import border

ELLIPSIS = "…"
# A fence around code, or an indented line.
_FENCE = re.compile(r"^[ \t]*+(?:```|~~~)", re.MULTILINE)
_INDENTED = re.compile(r"^(?: {2}|\t)[^\S\n]*+\S", re.MULTILINE)
# White space counts as no token, so longer runs are cut to this length.
_MAX_SPACE_CHARS = 40
_LONG_SPACE = re.compile(rf"[^\S\n]{{{_MAX_SPACE_CHARS + 1},}}+")


def shortened(text: str, chars: int) -> str:
    """Cut a text longer than `chars` at the end of a word, with an ellipsis.

    >>> shortened("one two three", 9)
    'one two…'
    """
    if len(text) <= chars:
        return text
    cut = text[: border(text, max(chars - 1, 0))]
    head, space, _ = cut.rpartition(" ")
    return (head if space and len(head) > chars // 2 else cut).rstrip(" \n,;:.") + ELLIPSIS


def within_tokens(text: str, tokens: int, count: Count = estimate_line) -> str:
    """Return the longest beginning of at most `tokens` tokens, with an ellipsis if it is not all.

    >>> within_tokens("one two three four", 4)
    'one two…'
    """
    if count(text) <= tokens:
        return text
    return shortened(text, longest(0, len(text), lambda size: count(shortened(text, size)) <= tokens))


def within_bytes(text: str, size: int) -> tuple[str, int | None]:
    """Cut a text longer than `size` bytes in UTF-8, between words or characters; return it and how long it was.

    >>> within_bytes("one two three four five six seven eight", 32)
    ('one two three… [cut: 39 bytes]', 39)
    """
    if 4 * len(text) <= size or (length := len(text.encode())) <= size:
        return text, None
    mark = f"{ELLIPSIS} [cut: {length} bytes]"
    at = len(text.encode()[: size - len(mark.encode())].decode(errors="ignore"))
    blank = next((place for place in range(at, max(at - 200, 0), -1) if text[place].isspace()), 0)
    return text[: blank or border(text, at)].rstrip() + mark, length


def blank_out(text: str, places: Iterable[tuple[int, int]]) -> str:
    """Replace each of these spans, given in order, by a space.

    >>> blank_out("last week in Porto", [(0, 9)])
    '  in Porto'
    """
    parts, at = [], 0
    for start, end in places:
        parts += [text[at : max(at, start)], " "]
        at = max(at, end)
    return "".join((*parts, text[at:]))


def one_line(text: str) -> str:
    """Put a message on one line that can break neither its fence nor its line."""
    return harmless(" ".join(visible(text).split()))


def is_code(text: str) -> bool:
    """Tell whether a text holds code, whose lines and indentation say something: a fenced block or indented lines.

    >>> is_code("if ready:\\n    go()\\n    stop()"), is_code("one\\ntwo"), is_code("```\\nls\\n```")
    (True, False, True)
    """
    if "\n" not in text:
        return False
    indented = _INDENTED.finditer(text)
    return _FENCE.search(text) is not None or (
        next(indented, None) is not None and next(indented, None) is not None
    )


def displayed(text: str) -> str:
    """Put a message on one line, or code on lines of which none but the first can pass for a message.

    >>> displayed("so:\\n\\nif ready:\\n    go()\\n    stop()")
    'so:\\n\\n  if ready:\\n      go()\\n      stop()'
    """
    return in_lines(text) if is_code(text) else one_line(text)


def in_lines(text: str) -> str:
    """Keep the lines of a text and their indentation, each but the first indented; of blank lines in a row one."""
    space = " " * _MAX_SPACE_CHARS
    lines = [_LONG_SPACE.sub(space, line.rstrip()) for line in harmless(visible(text)).strip().splitlines()]
    shown = [line for before, line in pairwise(["", *lines]) if before or line]
    return "\n".join(f"  {line}" if number and line else line for number, line in enumerate(shown))
