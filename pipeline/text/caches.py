"""Caches that hold no words: what people wrote would otherwise stay in memory after it was forgotten."""

import re
from collections.abc import Callable
from functools import wraps
from re import _compiler  # type: ignore[attr-defined] # there is no public way past the cache of `re.compile`
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
V = TypeVar("V", float, int, bool)


def cached(function: Callable[P, V], *, most: int = 65_536) -> Callable[P, V]:
    """Memoize a number computed from texts, by their 64-bit hash and never their words; `most` at once."""
    values: dict[int, V] = {}

    @wraps(function)
    def remembering(*texts: P.args, **options: P.kwargs) -> V:
        key = hash(texts)
        value = values.get(key)
        if value is None:
            if len(values) >= most:
                values.clear()
            value = values[key] = function(*texts, **options)
        return value

    return remembering


def pattern(source: str, flags: re.RegexFlag = re.NOFLAG) -> re.Pattern[str]:
    """Compile a pattern made from a user's words; `re.compile` would keep it among its last 512."""
    compiled: re.Pattern[str] = _compiler.compile(source, int(flags))
    return compiled
