"""A worker whose main loop fails, and whose pool then waits for children that will never answer.

Imported by a worker that is told to (`-I tests.processes.broken`), in place of a stream of results that was cut.
"""

import time
from pickle import UnpicklingError
from typing import Any

from celery.signals import worker_ready

from tests.processes import hasty  # noqa: F401 - ends soon


@worker_ready.connect
def _break(sender: Any, **_: Any) -> None:
    sender.controller.pool.stop = lambda: time.sleep(3600)

    def fail() -> None:
        raise UnpicklingError("invalid load key")

    sender.hub.call_soon(fail)
