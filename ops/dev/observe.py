"""Waiting until something holds, timing, and counting rows."""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, ParamSpec, TypeVar

if TYPE_CHECKING:
    import psycopg

P = ParamSpec("P")
T = TypeVar("T")
Say = Callable[[str], None]
"""Hears what a tool is doing."""


def wait(
    condition: Callable[[], bool],
    seconds: float,
    *,
    pause: float = 0.05,
    meanwhile: Callable[[], object] = lambda: None,
) -> float | None:
    """Wait until the condition holds; return the seconds it took, or None if longer than `seconds`."""
    began = time.monotonic()
    while not condition():
        if time.monotonic() - began > seconds:
            return None
        meanwhile()
        time.sleep(pause)
    return time.monotonic() - began


def timed(act: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> tuple[float, T]:
    """Call a function; return the milliseconds it took, and its result."""
    began = time.perf_counter()
    result = act(*args, **kwargs)
    return (time.perf_counter() - began) * 1000, result


def count(
    connection: "psycopg.Connection", statement: str, parameters: Sequence[object] | Mapping[str, object] = ()
) -> int:
    """Return the number that a statement selects; 0 without a row."""
    row = connection.execute(statement, parameters).fetchone()
    return int(row[0]) if row else 0
