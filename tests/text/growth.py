"""Tell whether the time of a function of a text grows with the text or with its square."""

from collections.abc import Callable
from math import inf
from time import thread_time

SHORT, LONG = 2_000, 8_000
# Linear is 4 times, quadratic 16 times.
MOST_TIMES = 8.0
# The time of a text below this is noise; a square would take several times as long at the very least.
FLOOR_SECONDS = 0.008
RUNS = 3
# A quarter of `SHORT` characters may not take longer, whatever it grows with: `LONG` would hang.
HANGS_SECONDS = 0.5


def times_as_long(function: Callable[[str], object], text: Callable[[int], str]) -> float:
    """How many times as long `LONG` characters take as `SHORT`, in processor time; 1 where both take hardly any."""
    # what disturbs a run, or is loaded in the first one, only makes it longer
    if all(_seconds(function, text(SHORT // 4)) > HANGS_SECONDS for _ in range(2)):
        return inf
    longer = _seconds(function, text(LONG))
    if longer < FLOOR_SECONDS:
        return 1.0
    shorter = inf
    for _ in range(RUNS):
        shorter = min(shorter, _seconds(function, text(SHORT)))
        if longer < max(FLOOR_SECONDS, MOST_TIMES * shorter):
            break
        longer = min(longer, _seconds(function, text(LONG)))
    return longer / max(shorter, FLOOR_SECONDS / MOST_TIMES)


def _seconds(function: Callable[[str], object], text: str) -> float:
    started = thread_time()
    function(text)
    return thread_time() - started
