"""Tell whether the time of a function of a text grows with the text or with its square, and find texts to ask it of."""

import re
from collections.abc import Callable, Iterable, Iterator
from itertools import product
from math import inf
from re import _constants as codes  # type: ignore[attr-defined] # how `re` itself reads a pattern
from re import _parser  # type: ignore[attr-defined]
from time import thread_time
from typing import Any

SHORT, LONG = 2_000, 8_000
# Linear is 4 times, quadratic 16 times.
MOST_TIMES = 8.0
# The time of a text below this is noise; a square would take several times as long at the very least.
FLOOR_SECONDS = 0.008
RUNS = 3
# A quarter of `SHORT` characters may not take longer, whatever it grows with: `LONG` would hang.
HANGS_SECONDS = 0.5
# What is in no class of letters, figures, or white space ends a run that was going well.
ENDS = ("\x00", "x", " ", "\n", "\nx")


def times_as_long(function: Callable[[str], object], text: Callable[[int], str]) -> float:
    """How many times as long `LONG` characters take as `SHORT`, in processor time; 1 where both take hardly any."""
    begun = text(SHORT // 4)
    # what disturbs a run, or is loaded in the first one, only makes it longer
    if all(_seconds(function, begun) > HANGS_SECONDS for _ in range(2)):
        return inf
    short, long = text(SHORT), text(LONG)
    longer = _seconds(function, long)
    if longer < FLOOR_SECONDS:
        return 1.0
    shorter = _seconds(function, short)
    for _ in range(RUNS):
        if longer < max(FLOOR_SECONDS, MOST_TIMES * shorter):
            break
        # what disturbs a run only makes it longer
        shorter, longer = min(shorter, _seconds(function, short)), min(longer, _seconds(function, long))
    return longer / max(shorter, FLOOR_SECONDS / MOST_TIMES)


def _seconds(function: Callable[[str], object], text: str) -> float:
    started = thread_time()
    function(text)
    return thread_time() - started


def texts_for(pattern: re.Pattern[str]) -> dict[str, Callable[[int], str]]:
    """Texts of any length that a pattern may take long for, by what they are made of: from its own characters.

    Runs of each character and of each two that it knows; what it begins with, many times over; and each of its
    repetitions, begun as it must be, going on for long, and ended as it must not.
    """
    tree = _parser.parse(pattern.pattern, pattern.flags)
    found: dict[str, Callable[[int], str]] = {}

    def add(begin: str, piece: str, end: str = "") -> None:
        if piece:
            found[f"{begin!r} + {piece!r} … + {end!r}"] = lambda size: (
                begin + piece * max((size - len(begin) - len(end)) // len(piece), 1) + end
            )

    # letters among them by the dozen, in words; what is between words matters most
    signs = sorted(dict.fromkeys(_signs(tree)), key=str.isalpha)[:10]
    for sign in signs:
        add("", sign)
    for one, other in product(signs[:5], repeat=2):
        add("", one + other)
    for begin, body in _repetitions(tree):
        add("", begin + body)
        add("", begin)
        for end in (*ENDS, begin[:1]):
            add(begin, body, end)
            add("", begin + body + end)
    return found


def _signs(tree: Iterable[Any]) -> Iterator[str]:
    """A character for each literal, class and kind of a pattern."""
    for operation, argument in tree:
        match operation:
            case codes.LITERAL:
                yield chr(argument)
            case codes.IN | codes.NOT_LITERAL | codes.ANY:
                yield from _members(operation, argument)
            case codes.BRANCH:
                for branch in argument[1]:
                    yield from _signs(branch)
            case codes.SUBPATTERN:
                yield from _signs(argument[-1])
            case codes.MAX_REPEAT | codes.MIN_REPEAT | codes.POSSESSIVE_REPEAT:
                yield from _signs(argument[2])
            case codes.ATOMIC_GROUP:
                yield from _signs(argument)
            case codes.ASSERT | codes.ASSERT_NOT:
                yield from _signs(argument[1])


_SAMPLES = "ab7 \n.,A_-é…?'\"@/漢"
_OF_CATEGORY = {
    codes.CATEGORY_DIGIT: r"\d",
    codes.CATEGORY_NOT_DIGIT: r"\D",
    codes.CATEGORY_SPACE: r"\s",
    codes.CATEGORY_NOT_SPACE: r"\S",
    codes.CATEGORY_WORD: r"\w",
    codes.CATEGORY_NOT_WORD: r"\W",
}


def _members(operation: Any, argument: Any, most: int = 3) -> list[str]:
    """A few of the characters that one step of a pattern matches, unlike each other."""
    if operation is codes.ANY:
        return ["b", " ", "."][:most]
    if operation is codes.NOT_LITERAL:
        return [sign for sign in _SAMPLES if ord(sign) != argument][:most]
    negated = argument[0][0] is codes.NEGATE
    wanted = [sign for sign in _SAMPLES if _is_in(sign, argument) is not negated]
    if not negated:
        wanted += [
            chr(a if o is codes.LITERAL else a[0]) for o, a in argument if o in (codes.LITERAL, codes.RANGE)
        ]
    return list(dict.fromkeys(wanted))[:most] or ["b"]


def _is_in(sign: str, members: Iterable[Any]) -> bool:
    for operation, argument in members:
        if operation is codes.LITERAL and argument == ord(sign):
            return True
        if operation is codes.RANGE and argument[0] <= ord(sign) <= argument[1]:
            return True
        if operation is codes.CATEGORY and re.match(_OF_CATEGORY[argument], sign):
            return True
    return False


def _example(tree: Iterable[Any]) -> str:
    """A text that a part of a pattern matches, as short as it may be but for what is optional, taken once."""
    made = ""
    for operation, argument in tree:
        match operation:
            case codes.LITERAL:
                made += chr(argument)
            case codes.IN | codes.NOT_LITERAL | codes.ANY:
                made += _members(operation, argument, 1)[0]
            case codes.BRANCH:
                made += _example(argument[1][0])
            case codes.SUBPATTERN:
                made += _example(argument[-1])
            case codes.ATOMIC_GROUP:
                made += _example(argument)
            case codes.MAX_REPEAT | codes.MIN_REPEAT | codes.POSSESSIVE_REPEAT:
                made += _example(argument[2]) * argument[0]
    return made


def _repetitions(tree: Iterable[Any], begin: str = "") -> Iterator[tuple[str, str]]:
    """What stands before each repetition of a pattern, and what it repeats."""
    for operation, argument in tree:
        match operation:
            case codes.BRANCH:
                for branch in argument[1]:
                    yield from _repetitions(branch, begin)
            case codes.SUBPATTERN:
                yield from _repetitions(argument[-1], begin)
            case codes.ATOMIC_GROUP:
                yield from _repetitions(argument, begin)
            case codes.ASSERT | codes.ASSERT_NOT if argument[0] > 0:
                yield from _repetitions(argument[1], begin)
            case codes.MAX_REPEAT | codes.MIN_REPEAT | codes.POSSESSIVE_REPEAT:
                if argument[1] > 1:
                    single = len(argument[2]) == 1 and argument[2][0][0] in (
                        codes.IN,
                        codes.ANY,
                        codes.NOT_LITERAL,
                    )
                    bodies = _members(*argument[2][0]) if single else [_example(argument[2])]
                    for body in bodies:
                        yield begin, body
                yield from _repetitions(argument[2], begin)
        begin += _example([(operation, argument)])
