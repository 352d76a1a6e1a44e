"""Make patterns of the words and phrases in a language's file."""

from collections.abc import Callable, Mapping
from typing import Any

Shape = Callable[[Mapping[str, Any], str], str]
"""The data of a language, and alternatives, to a pattern."""


def delimited(source: Mapping[str, Any], inside: str) -> str:
    """Return a pattern of whole words; of any characters in scripts without spaces."""
    return rf"(?<!\w)(?:{inside})(?!\w)" if source.get("spaced", True) else f"(?:{inside})"


def as_begun(source: Mapping[str, Any], inside: str) -> str:
    """Return a pattern of how words begin."""
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
    """Return a pattern of an answer that says nothing, with the words after that as `more`."""
    acts = source["acts"]
    apologies, nothing = "|".join(acts["apologies"].split()), "|".join(acts["says_nothing"])
    if source.get("spaced", True):
        return rf"(?:(?:{apologies}) )*(?:{nothing})(?P<more>(?: .*)?)"
    return rf"(?:(?:{apologies}) ?)*(?:{nothing})(?P<more>.*)"


def request(source: Mapping[str, Any], inside: str) -> str:
    """Return a pattern of a text that begins with a request, the `cue`; `what` follows unless it is in that."""
    spaced = source.get("spaced", True)
    lead = "|".join(f"{source['asks']['lead']} {source['greetings']} {source['kept']['lead']}".split())
    # behind a mark of quotation it is not the speaker's own
    before = rf"""[^\w"'`>“„«»‘「『]*(?:(?:{lead})[,!.:，。！、 ]{{{1 if spaced else 0},}})*"""
    end = r"(?:(?<=')|(?!\w))" if spaced else ""
    what = "" if "(?P<what>" in inside else r"[\s:：，]*(?P<what>[^\s,.;:!。！].*)?"
    return rf"\A{before}(?P<cue>(?:{inside}){end}){what}"
