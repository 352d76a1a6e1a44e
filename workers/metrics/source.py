"""Read sources repeatedly in the background, so that a scrape never waits for a server."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

import structlog
from sqlalchemy.exc import SQLAlchemyError

from pipeline.jobs.failures import reason_of
from schemas.errors import BackscrollError
from workers.logging import OUTAGES

log = structlog.get_logger(OUTAGES)

T = TypeVar("T")

STALE_READINGS = 3
"""A reading older than so many intervals is not shown: the server or the reader hangs."""
GRACE_SECONDS = 15.0
"""Added to that, as a reading itself takes time."""


@dataclass(frozen=True, kw_only=True)
class Reading(Generic[T]):
    """The value of a source at one moment."""

    # of the monotonic clock
    at: float
    # how long it took
    seconds: float
    # None: it could not be read
    value: T | None


class Source(Generic[T]):
    """A source read at an interval by its own thread, so that one that hangs does not delay the others."""

    def __init__(
        self, name: str, read: Callable[[], T], every_seconds: float, first_after_seconds: float = 0.0
    ) -> None:
        self.name = name
        self._read = read
        self._every_seconds, self._first_after_seconds = every_seconds, first_after_seconds
        self._began = time.monotonic()
        # replaced as a whole, never changed
        self._reading: Reading[T] | None = None

    def start(self) -> None:
        """Start reading."""
        threading.Thread(target=self._run, name=f"read-{self.name}", daemon=True).start()

    def last(self) -> Reading[T]:
        """Return the last reading, without a value if it is too old or there was none yet."""
        reading, now = self._reading, time.monotonic()
        if reading is None:
            return Reading(at=self._began, seconds=0.0, value=None)
        if now - reading.at > STALE_READINGS * self._every_seconds + GRACE_SECONDS:
            return Reading(at=reading.at, seconds=reading.seconds, value=None)
        return reading

    def _run(self) -> None:
        time.sleep(self._first_after_seconds)
        while True:
            started = time.monotonic()
            value: T | None = None
            try:
                value = self._read()
            except (BackscrollError, SQLAlchemyError) as error:
                log.warning("figures_not_read", source=self.name, error=reason_of(error))
            except Exception:
                # a defect: it is logged, and the next reading may succeed
                log.exception("figures_not_read", source=self.name)
            now = time.monotonic()
            self._reading = Reading(at=now, seconds=now - started, value=value)
            time.sleep(max(0.0, started + self._every_seconds - now))
