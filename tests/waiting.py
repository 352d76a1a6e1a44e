"""Waits that end: what does not come about in time fails with a sentence, long before the run's own limit."""

import threading
import time
from collections.abc import Callable, Iterator
from typing import TypeVar

T = TypeVar("T")

SECONDS = 180
"""Ends what hangs, not what is slow: machines that run the tests are busy."""


def until(condition: Callable[[], T], what: str, seconds: float = SECONDS) -> T:
    """Wait until it is so, and return what the condition then returns."""
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        time.sleep(0.02)
    return found


def ended(*threads: threading.Thread) -> None:
    """Wait until threads have ended."""
    until(lambda: not any(thread.is_alive() for thread in threads), "threads have ended")


def rounds(what: str, most: int = 1000) -> Iterator[int]:
    """Count the rounds of a loop that ends by itself; one that goes on after `most` of them fails."""
    yield from range(most)
    raise AssertionError(f"not within {most} rounds: {what}")
