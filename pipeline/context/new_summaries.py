"""Choose the sessions whose summaries add most to the messages that a context shows. Pure."""

import re
from collections.abc import Iterable, Sequence

from pipeline.retrieval.sessions import RetrievedSession

# Short words are in everything that is said; scripts without spaces are compared by pairs of characters.
_WORD = re.compile(r"[^\W_]+")
_SHORTEST = 4
_FIRST_UNSPACED = "\u0e00"
MIN_NEW = 0.2
"""A summary with a smaller share of new words is not shown."""


def choose(
    sessions: Sequence[RetrievedSession], shown: Iterable[str], most: int, *, chars: int
) -> tuple[list[RetrievedSession], list[RetrievedSession]]:
    """Choose up to `most` sessions by score × the share of new words in their summary; return also which add little.

    `shown` are the texts of the messages that the context will show, `chars` how much of a summary is shown.
    """
    held = _words("\n".join(shown))
    left = {number: _words((session.summary or "")[:chars]) for number, session in enumerate(sessions)}
    # scores may be negative; only their order says something then
    scores = [max(session.score, 1e-6 / (number + 1)) for number, session in enumerate(sessions)]
    chosen: list[RetrievedSession] = []

    def new(number: int) -> float:
        said = left[number]
        return len(said - held) / len(said) if said else 1.0

    while left and len(chosen) < most:
        best = max(left, key=lambda number: (scores[number] * new(number), -number))
        if new(best) < MIN_NEW:
            break
        chosen.append(sessions[best])
        held |= left.pop(best)
    little = [sessions[number] for number in left if new(number) < MIN_NEW]
    return chosen, little


def _words(text: str) -> set[str]:
    found: set[str] = set()
    if text.isascii():
        return {word for word in _WORD.findall(text.lower()) if len(word) >= _SHORTEST or word.isdigit()}
    for word in _WORD.findall(text.casefold()):
        if word[0] >= _FIRST_UNSPACED:
            found.update(word[i : i + 2] for i in range(max(len(word) - 1, 1)))
        elif len(word) >= _SHORTEST or word.isdigit():
            found.add(word)
    return found
