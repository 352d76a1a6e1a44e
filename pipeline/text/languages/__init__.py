"""The data of each language, in a folder such as `english/`.

`cues.toml` says how its speakers ask, promise, hedge and greet, with its stop words; `calendar.toml` how they say
times; `names.toml` how they name people; `wording.toml` what a context says.
"""

import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any, Literal

LANGUAGES = (
    *("english", "german", "french", "spanish", "portuguese", "italian", "dutch", "polish"),
    *("turkish", "russian", "chinese", "japanese"),
)
"""The languages that have a folder."""
FALLBACK = "english"
"""Read in place of a language without a folder: its speakers know these words best."""
ANY_LANGUAGE = "+".join(LANGUAGES)
"""For texts of unknown language, where stop words of another language do less harm than none."""


def parts_of(language: str) -> tuple[str, ...]:
    """Return the languages whose folders are read for one, or for several as in `german+english`, in their order.

    >>> parts_of("german+swedish"), parts_of("swedish")
    (('german',), ('english',))
    """
    parts = dict.fromkeys(part for part in language.split("+") if part in LANGUAGES)
    return tuple(parts) or (FALLBACK,)


@cache
def read(language: str, file: Literal["cues", "calendar", "names", "wording"]) -> Mapping[str, Any]:
    """Return a file of a language that has a folder."""
    return tomllib.loads((files(__name__) / language / f"{file}.toml").read_text(encoding="utf-8"))
