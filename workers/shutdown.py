"""The end of a worker, within a time limit."""

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
    """A time limit for the end of a worker that was stopped, or whose main loop has failed.

    Closing may wait without end for children that nobody listens to, and whoever started the worker waits with it.
    """

    def start(self, parent: Any) -> None:
        """Limit what TERM begins, where it is a stop with a time for the tasks in hand."""
        if REMAP_SIGTERM != "SIGQUIT":
            return
        seconds = parent.app.conf.worker_soft_shutdown_timeout + CLOSING_SECONDS
        stop = signal.getsignal(signal.SIGTERM)

        def stop_in_time(*received: Any) -> None:
            _limit(seconds)
            stop(*received)  # type: ignore[operator,misc] # Celery set it

        signal.signal(signal.SIGTERM, stop_in_time)

    def close(self, parent: Any) -> None:
        """Limit the closing after a failure."""
        if parent.exitcode == EX_FAILURE:
            _limit(CLOSING_SECONDS)


@worker_init.connect
def _add_step(sender: Any, **_: Any) -> None:
    sender.app.steps["worker"].add(EndsInTime)


def _limit(seconds: float) -> None:
    """End this process and its children after `seconds`, if it still runs; after the lease others do their jobs."""
    watchdog = threading.Timer(seconds, _end_now, [seconds])
    watchdog.daemon = True
    watchdog.start()


def _end_now(seconds: float) -> None:
    log.error("shutdown_hung", seconds=seconds)
    faulthandler.dump_traceback()
    for child in active_children():
        os.kill(child.pid, signal.SIGKILL)
    os._exit(1)
