"""Shorten a text to a number of characters or tokens, on one line where it must be."""

from pipeline.text.fencing import harmless, visible
from pipeline.text.tokens import Count, estimate_line, longest

ELLIPSIS = "…"


def shortened(text: str, chars: int) -> str:
    """Cut a text longer than `chars` at the end of a word, with an ellipsis.

    >>> shortened("one two three", 9)
    'one two…'
    """
    if len(text) <= chars:
        return text
    cut = text[: max(chars - 1, 0)]
    head, space, _ = cut.rpartition(" ")
    return (head if space and len(head) > chars // 2 else cut).rstrip(" ,;:.") + ELLIPSIS


def within_tokens(text: str, tokens: int, count: Count = estimate_line) -> str:
    """Return the longest beginning of at most `tokens` tokens, with an ellipsis if it is not all.

    >>> within_tokens("one two three four", 4)
    'one two…'
    """
    if count(text) <= tokens:
        return text
    return shortened(text, longest(0, len(text), lambda size: count(shortened(text, size)) <= tokens))


def one_line(text: str) -> str:
    """Put a message on one line that can break neither its fence nor its line."""
    return harmless(" ".join(visible(text).split()))
