"""Match a text against the patterns or the words of one kind."""

from collections.abc import Iterable
from dataclasses import dataclass
from re import Match, Pattern

from pipeline.text.caches import pattern


class Phrases:
    """Patterns that are searched for in a text as `plain` returns it."""

    def __init__(self, sources: Iterable[str]) -> None:
        self.patterns = tuple(map(pattern, sources))

    def are_in(self, text: str) -> bool:
        """Tell whether the text has one of the patterns."""
        return any(regex.search(text) for regex in self.patterns)

    def begun(self, text: str) -> Match[str] | None:
        """Return how the text begins with one of the patterns."""
        return next(filter(None, (regex.match(text) for regex in self.patterns)), None)


@dataclass(frozen=True, kw_only=True)
class Words:
    """Words of one kind."""

    whole: frozenset[str]
    # those of scripts without spaces, which are sought anywhere; None: there are none
    pieces: Pattern[str] | None = None

    def are_in(self, words: Iterable[str], text: str) -> bool:
        """Tell whether one of them is among the words of a text, or in the text."""
        return not self.whole.isdisjoint(words) or bool(self.pieces and self.pieces.search(text))
