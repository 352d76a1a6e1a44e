"""The states of Postgres and Redis, checked on request, but at most every second."""

import threading
import time
from collections.abc import Callable
from typing import Literal

import structlog

from schemas.errors import Retryable, SchemaOutdated, SettingsError, WritesRefused
from workers.logging import OUTAGES

log = structlog.get_logger(OUTAGES)

# `outdated`: its tables are not this program's; `misconfigured`: its login is wrong or lacks rights; `read_only`: it
# answers, but takes no writes
ServiceState = Literal["ok", "unreachable", "read_only", "outdated", "misconfigured"]
# by the exception of a check, subclasses first
_STATES: dict[type[Exception], ServiceState] = {
    SchemaOutdated: "outdated",
    SettingsError: "misconfigured",
    WritesRefused: "read_only",
    Retryable: "unreachable",
}


class Service:
    """A service, with a check that raises if something is wrong."""

    def __init__(self, name: str, check: Callable[[], None], *, fresh_seconds: float) -> None:
        self._name, self._check, self._fresh_seconds = name, check, fresh_seconds
        self._lock = threading.Lock()
        self._state: ServiceState = "ok"
        self._checked = -fresh_seconds

    def now(self) -> ServiceState:
        """Return the state, at most `fresh_seconds` old: a check writes, and needs no key to be triggered."""
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
