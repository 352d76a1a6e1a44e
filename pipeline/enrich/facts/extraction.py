"""Bound the processor time of extraction: how much of a session is read, and by how many threads at once."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import Lock

from pipeline.enrich.protocols import Source

MAX_MESSAGE_CHARS = 2000
MAX_CHARS = 200_000  # of all messages read together: some seconds for the slowest text known
WAIT_SECONDS = 10.0  # well below a lease
# Threads share one interpreter: side by side, each would take as long as all of them in turn.
_turn = Lock()


def chars_of_each(texts: Sequence[str]) -> int:
    """Return how many characters are read of each of these texts.

    >>> chars_of_each(["слово " * 1000] * 10), chars_of_each(["слово " * 1000] * 400)
    (2000, 500)
    """
    if sum(min(len(text), MAX_MESSAGE_CHARS) for text in texts) <= MAX_CHARS:
        return MAX_MESSAGE_CHARS
    return MAX_CHARS // len(texts)


@contextmanager
def turn(source: Source) -> Iterator[None]:
    """Wait until no other thread of this process extracts, while the job keeps its lease. Raises `LeaseLost`."""
    while not _turn.acquire(timeout=WAIT_SECONDS):
        source.before_call()
    try:
        yield
    finally:
        _turn.release()
