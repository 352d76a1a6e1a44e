"""Limit how long a worker takes to end, and log where it hung."""

import faulthandler
import os
import signal
import threading
from typing import Any

import structlog
from billiard import active_children
from celery.apps.worker import REMAP_SIGTERM
from celery.bootsteps import StartStopStep
from celery.platforms import EX_FAILURE
from celery.signals import worker_init

log = structlog.get_logger(__name__)

# Closing pools and connections takes a moment.
CLOSING_SECONDS = 10.0


class EndsInTime(StartStopStep):  # type: ignore[misc] # Celery ships no types
    """A time limit for the shutdown of a worker that was stopped, or whose main loop failed.

    Celery's shutdown may wait forever, for a child or for a lock, and the supervisor would wait with it.
    """

    def start(self, parent: Any) -> None:
        """Limit the shutdown after TERM, if running tasks have limited time to finish (`REMAP_SIGTERM`)."""
        if REMAP_SIGTERM != "SIGQUIT":
            return
        seconds = parent.app.conf.worker_soft_shutdown_timeout + CLOSING_SECONDS
        stop = signal.getsignal(signal.SIGTERM)

        def stop_in_time(*received: Any) -> None:
            _end_after(seconds)
            stop(*received)  # type: ignore[operator,misc] # Celery set it

        signal.signal(signal.SIGTERM, stop_in_time)

    def close(self, parent: Any) -> None:
        """Limit the shutdown after a failure of the main loop."""
        if parent.exitcode == EX_FAILURE:
            _end_after(CLOSING_SECONDS)


@worker_init.connect
def _add_step(sender: Any, **_: Any) -> None:
    sender.app.steps["worker"].add(EndsInTime)


def _end_after(seconds: float) -> None:
    """Kill this process and its children if it still runs after `seconds`; other workers then do its jobs."""
    watchdog = threading.Timer(seconds, _end_now, [seconds])
    watchdog.daemon = True
    watchdog.start()


def _end_now(seconds: float) -> None:
    log.error("shutdown_hung", seconds=seconds)
    faulthandler.dump_traceback()
    for child in active_children():
        os.kill(child.pid, signal.SIGKILL)
    os._exit(1)
