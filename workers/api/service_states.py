"""The states of Postgres and Redis, looked at when somebody asks, and not oftener than every second."""

import threading
import time
from collections.abc import Callable
from typing import Literal

import structlog

from schemas.errors import Retryable, SchemaOutdated, SettingsError, WritesRefused
from workers.logging import OUTAGES

log = structlog.get_logger(OUTAGES)

# `outdated`: its tables are not those of this program; `misconfigured`: its login is wrong or has wrong rights;
# `read_only`: it answers, and takes no writes
ServiceState = Literal["ok", "unreachable", "read_only", "outdated", "misconfigured"]
# by what a check raises, the narrower kind first
_STATES: dict[type[Exception], ServiceState] = {
    SchemaOutdated: "outdated",
    SettingsError: "misconfigured",
    WritesRefused: "read_only",
    Retryable: "unreachable",
}


class Service:
    """A service with the check that raises what is wrong with it."""

    def __init__(self, name: str, check: Callable[[], None], *, fresh_seconds: float) -> None:
        self._name, self._check, self._fresh_seconds = name, check, fresh_seconds
        self._lock = threading.Lock()
        self._state: ServiceState = "ok"
        self._checked = -fresh_seconds

    def now(self) -> ServiceState:
        """Return the state, found at most `fresh_seconds` ago: the check writes, and whoever asks needs no key."""
        with self._lock:
            if time.monotonic() - self._checked >= self._fresh_seconds:
                self._state = self._look()
                self._checked = time.monotonic()
            return self._state

    def _look(self) -> ServiceState:
        try:
            self._check()
        except (SettingsError, Retryable) as error:
            state = next(state for kind, state in _STATES.items() if isinstance(error, kind))
            log.warning("not_ready", service=self._name, state=state, error=str(error))
            return state
        return "ok"
