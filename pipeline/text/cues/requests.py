"""Recognize what people tell a bot to keep or to drop, in every language: the sections `kept` of the cue files."""

from collections.abc import Iterator, Mapping
from functools import cache
from re import Match
from typing import Literal, NamedTuple, get_args

from pipeline.text.caches import pattern
from pipeline.text.cues import patterns, read
from pipeline.text.cues.patterns import Phrases, Words
from pipeline.text.languages import LANGUAGES

RequestKind = Literal["remember", "call_me", "forget", "wrong"]
"""Keep a statement, call somebody by a name, forget a statement, call the last one wrong."""
KINDS: tuple[RequestKind, ...] = get_args(RequestKind)


class Request(NamedTuple):
    """A request to a bot that a text may begin with."""

    kind: RequestKind
    # with the groups `cue`, the request as it is worded, and `what` it is about (None: nothing follows)
    match: Match[str]
    # words of its language such as `we`, of those who speak for a group
    us: Words


def candidates(text: str) -> Iterator[Request]:
    """Yield the requests that a text, as `plain` returns it, may begin with.

    >>> [(request.kind, request.match["what"]) for request in candidates("please remember that i am vegan")]
    [('remember', 'i am vegan')]
    """
    for by_kind, us in _requests():
        for kind, ways in by_kind.items():
            if match := ways.begun(text):
                yield Request(kind, match, us)


def phrases(language: str) -> Mapping[RequestKind, Phrases]:
    """Return how people of a language tell a bot each kind of request."""
    source = read(language)
    return {kind: Phrases(patterns.request(source, text) for text in source["kept"][kind]) for kind in KINDS}


@cache
def _requests() -> tuple[tuple[Mapping[RequestKind, Phrases], Words], ...]:
    return tuple((phrases(language), _us(language)) for language in LANGUAGES)


def _us(language: str) -> Words:
    us = read(language)["kept"]["us"].split()
    if read(language).get("spaced", True):
        return Words(whole=frozenset(us))
    return Words(whole=frozenset(), pieces=pattern("|".join(us)))
