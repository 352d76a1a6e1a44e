"""Choose the sessions whose summaries add most to the messages that a context shows. Pure."""

import re
from collections.abc import Iterable, Mapping, Sequence, Set

from pipeline.retrieval.sessions import RetrievedSession

# Short words are in everything that is said; scripts without spaces are compared by pairs of characters.
_WORD = re.compile(r"[^\W_]+")
_SHORTEST = 4
# The same of a text in ASCII.
_LONG_OR_NUMBER = re.compile(rf"[a-z\d]{{{_SHORTEST},}}|(?<![a-z\d])\d+(?![a-z\d])")
_FIRST_UNSPACED = "\u0e00"
MIN_NEW = 0.2
"""A summary with a smaller share of new words is not shown."""


def choose(
    sessions: Sequence[RetrievedSession], said: Mapping[int, Set[str]], shown: Iterable[str], most: int
) -> tuple[list[RetrievedSession], list[RetrievedSession]]:
    """Choose up to `most` sessions by score × the share of new words in their summary; return also which add little.

    `said` are the words of each summary, by session; `shown` are the texts of the messages that the context will show.
    """
    held = words_of("\n".join(shown))
    left = {number: said[session.id] for number, session in enumerate(sessions)}
    # scores may be negative; only their order says something then
    scores = [max(session.score, 1e-6 / (number + 1)) for number, session in enumerate(sessions)]
    chosen: list[RetrievedSession] = []

    def new(number: int) -> float:
        own = left[number]
        return len(own - held) / len(own) if own else 1.0

    while left and len(chosen) < most:
        best = max(left, key=lambda number: (scores[number] * new(number), -number))
        if new(best) < MIN_NEW:
            break
        chosen.append(sessions[best])
        held |= left.pop(best)
    little = [sessions[number] for number in left if new(number) < MIN_NEW]
    return chosen, little


def words_of(text: str) -> set[str]:
    """Return the words of a text that can be new: long ones, numbers, and pairs of a script without spaces."""
    found: set[str] = set()
    if text.isascii():
        return set(_LONG_OR_NUMBER.findall(text.lower()))
    for word in _WORD.findall(text.casefold()):
        if word[0] >= _FIRST_UNSPACED:
            found.update(word[i : i + 2] for i in range(max(len(word) - 1, 1)))
        elif len(word) >= _SHORTEST or word.isdigit():
            found.add(word)
    return found
