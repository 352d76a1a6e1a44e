"""Match a text against the patterns or the words of one kind."""

from collections.abc import Iterable
from dataclasses import dataclass
from re import Match, Pattern

from pipeline.text.caches import pattern
from pipeline.text.cues.needed import needed


class Phrases:
    """Patterns that are searched for in a text as `plain` returns it, each only where it has a piece that it needs."""

    __slots__ = ("_pairs", "patterns")

    def __init__(self, sources: Iterable[str]) -> None:
        self.patterns = tuple(map(pattern, sources))
        # "" is in every text
        self._pairs = tuple(
            (piece, regex) for regex in self.patterns for piece in sorted(needed(regex.pattern)) or [""]
        )

    def are_in(self, text: str) -> bool:
        """Tell whether the text has one of the patterns."""
        return any(piece in text and regex.search(text) is not None for piece, regex in self._pairs)

    def begun(self, text: str) -> Match[str] | None:
        """Return how the text begins with one of the patterns."""
        matches = (regex.match(text) for piece, regex in self._pairs if piece in text)
        return next(filter(None, matches), None)


@dataclass(frozen=True, kw_only=True)
class Words:
    """Words of one kind."""

    whole: frozenset[str]
    # those of scripts without spaces, which are sought anywhere; None: there are none
    pieces: Pattern[str] | None = None

    def are_in(self, words: Iterable[str], text: str) -> bool:
        """Tell whether one of them is among the words of a text, or in the text."""
        return not self.whole.isdisjoint(words) or bool(self.pieces and self.pieces.search(text))
