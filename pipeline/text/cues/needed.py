"""Pieces of which a text must have one for a pattern to be found in it, so that most texts need not be searched."""

from collections.abc import Iterable
from re import _constants as codes  # type: ignore[attr-defined] # there is no public way to read a pattern
from re import _parser  # type: ignore[attr-defined]
from typing import Any

_REPEATS = (codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT)


def needed(source: str) -> frozenset[str]:
    """Return pieces of which every text that the pattern is found in has one; none if there are no such pieces.

    >>> sorted(needed("(?:we|they)(?:'ve)? (?:settled|voted)")), needed("[0-9]+")
    (['settled', 'voted'], frozenset())
    """
    return _needed_in(_parser.parse(source)) or frozenset()


def _needed_in(parts: Iterable[tuple[Any, Any]]) -> frozenset[str] | None:
    """Return the pieces of the most telling part of a sequence."""
    best: frozenset[str] | None = None
    run = ""
    for code, value in parts:
        if code is codes.LITERAL:
            run += chr(value)
            continue
        best, run = _better(best, run), ""
        if code is codes.BRANCH:
            best = _better(best, _needed_in_branches(value[1]))
        elif code is codes.SUBPATTERN:
            best = _better(best, _needed_in(value[3]))
        elif code is codes.ATOMIC_GROUP:
            best = _better(best, _needed_in(value))
        elif code in _REPEATS and value[0] > 0:
            best = _better(best, _needed_in(value[2]))
    return _better(best, run)


def _needed_in_branches(branches: Iterable[Iterable[tuple[Any, Any]]]) -> frozenset[str] | None:
    pieces: set[str] = set()
    for branch in branches:
        inside = _needed_in(branch)
        if inside is None:
            return None
        pieces |= inside
    # what holds another piece is found by that
    return frozenset(piece for piece in pieces if not any(other in piece for other in pieces - {piece}))


def _better(one: frozenset[str] | None, other: frozenset[str] | str | None) -> frozenset[str] | None:
    """Return the set of pieces whose shortest one is longer."""
    if not other:
        return one
    other = frozenset({other}) if isinstance(other, str) else other
    return other if one is None or min(map(len, other)) > min(map(len, one)) else one
