"""Build patterns from the words and phrases of a language's file, and match texts against them."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from re import Match, Pattern
from typing import Any

from pipeline.text.caches import pattern

Shape = Callable[[Mapping[str, Any], str], str]
"""Makes a pattern from a language's data and alternatives."""


def delimited(source: Mapping[str, Any], inside: str) -> str:
    """Return a pattern of whole words; of any characters in scripts without spaces."""
    return rf"(?<!\w)(?:{inside})(?!\w)" if source.get("spaced", True) else f"(?:{inside})"


def as_begun(source: Mapping[str, Any], inside: str) -> str:
    """Return a pattern of the beginnings of words."""
    return rf"(?<!\w)(?:{inside})" if source.get("spaced", True) else f"(?:{inside})"


def begins(source: Mapping[str, Any], inside: str) -> str:
    """Return a pattern of how a question begins, after any words that lead to it."""
    lead = "|".join(source["asks"]["lead"].split())
    before = rf"(?:(?:{lead})[,!. ]+)*" if lead else ""
    return rf"[^\w'+]*{before}{delimited(source, inside)}"


def ends(source: Mapping[str, Any], inside: str) -> str:
    """Return a pattern of how a question ends."""
    return rf"{as_begun(source, inside)}\W*\Z"


def opens(source: Mapping[str, Any], inside: str) -> str:
    """Return a pattern of how a text opens."""
    return rf"\W*{delimited(source, inside)}"


def says_nothing(source: Mapping[str, Any]) -> str:
    """Return a pattern of an answer that says nothing, with the remaining words as `more`."""
    acts = source["acts"]
    apologies, nothing = "|".join(acts["apologies"].split()), "|".join(acts["says_nothing"])
    if source.get("spaced", True):
        return rf"(?:(?:{apologies}) )*(?:{nothing})(?P<more>(?: .*)?)"
    return rf"(?:(?:{apologies}) ?)*(?:{nothing})(?P<more>.*)"


def request(source: Mapping[str, Any], inside: str) -> str:
    """Return a pattern of a text that begins with a request, the `cue`; `what` follows unless it is in that."""
    spaced = source.get("spaced", True)
    lead = "|".join(f"{source['asks']['lead']} {source['greetings']} {source['kept']['lead']}".split())
    # after a quotation mark it is not the speaker's own request
    before = rf"""[^\w"'`>“„«»‘「『]*(?:(?:{lead})[,!.:，。！、 ]{{{1 if spaced else 0},}})*"""
    end = r"(?:(?<=')|(?!\w))" if spaced else ""
    what = "" if "(?P<what>" in inside else r"[\s:：，]*(?P<what>[^\s,.;:!。！].*)?"
    return rf"\A{before}(?P<cue>(?:{inside}){end}){what}"


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
