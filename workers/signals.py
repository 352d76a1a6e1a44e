"""Handlers around tasks and workers: JSON logs, request ids from the API to the last task, connections, the end."""

import faulthandler
import os
import signal
import sys
import threading
import uuid
from functools import cache
from pathlib import Path
from typing import Any

import structlog
from billiard import active_children
from celery.apps.worker import REMAP_SIGTERM
from celery.bootsteps import StartStopStep
from celery.concurrency import thread
from celery.platforms import EX_FAILURE
from celery.signals import (
    before_task_publish,
    heartbeat_sent,
    setup_logging,
    task_postrun,
    task_prerun,
    worker_init,
    worker_process_init,
    worker_process_shutdown,
    worker_ready,
)

from pipeline.operations.doctor import collect
from pipeline.operations.doctor.check_servers import SKEW_WARNING_SECONDS
from pipeline.store.connections.database import Database
from schemas.errors import BackscrollError
from schemas.load_settings import load_settings
from workers import claim_file, resources, tracing
from workers.claim_file import release_dead
from workers.envelope import acceptable_id
from workers.logging import configure_logging

log = structlog.get_logger(__name__)

REQUEST_ID = "request_id"


def current_request_id() -> str | None:
    """Return the id of the request that this thread serves, if any."""
    known = structlog.contextvars.get_contextvars().get(REQUEST_ID)
    return None if known is None else str(known)


def request_id_of(*ids: object) -> str:
    """Return the first acceptable id among a sender's, or a new one."""
    return acceptable_id(*ids) or uuid.uuid4().hex


@setup_logging.connect
def _log_as_json(**_: Any) -> None:
    configure_logging(load_settings().log_level)


@before_task_publish.connect
def _pass_request_id(headers: dict[str, Any] | None = None, **_: Any) -> None:
    if headers is not None:
        headers.setdefault(REQUEST_ID, request_id_of(current_request_id()))
        tracing.carry(headers)


@task_prerun.connect
def _bind_request_id(task: Any = None, task_id: str | None = None, **_: Any) -> None:
    structlog.contextvars.clear_contextvars()
    # A bot may send its own id in the task's headers.
    request_id = request_id_of(getattr(task.request, REQUEST_ID, None) if task else None, task_id)
    structlog.contextvars.bind_contextvars(request_id=request_id, task=getattr(task, "name", None))


@task_postrun.connect
def _unbind(**_: Any) -> None:
    structlog.contextvars.clear_contextvars()


def _begin() -> None:
    tracing.start("worker")
    held = resources.current()
    node = next((word for word in sys.argv if "@" in word), "")
    claim_file.start_stating(f"worker {node.partition('@')[0]}", held.settings, held.database)


@worker_process_init.connect
def _drop_inherited(**_: Any) -> None:
    # Two processes must not share the parent's connections; `current` makes new ones for this one.
    held = resources.current()
    _begin()
    with resources.waiting():
        # of the process that it replaces, if that was killed
        release_dead(held.settings, held.database)


@worker_process_shutdown.connect
def _say_last_things(**_: Any) -> None:
    tracing.stop()
    claim_file.stop_stating()


def _has_fixed_threads(*_: Any) -> None:
    raise ValueError("its threads are set at the start: backscroll worker summarize --concurrency 32")


# what `celery control pool_grow` calls, and Celery's pool of threads lacks
thread.TaskPool.grow = thread.TaskPool.shrink = _has_fixed_threads


@worker_ready.connect
def _start_threads(sender: Any = None, **_: Any) -> None:
    # a thread worker forks no process that would
    if isinstance(sender.pool, thread.TaskPool):
        _begin()


@worker_ready.connect
def _log_what_is_away(**_: Any) -> None:
    """Log at the start that Postgres is down or this clock wrong, as there may be no task to log it.

    This also releases the claims of a killed worker: a thread worker has no child processes to do so.
    """
    settings = load_settings()
    database = Database.from_settings(settings)
    try:
        database.check()
        if abs(skew := collect.skew_seconds(database)) > SKEW_WARNING_SECONDS:
            log.warning("clock_differs", database_ahead_seconds=round(skew), remedy="keep time by NTP")
        release_dead(settings, database)
    except BackscrollError as error:
        log.warning("worker_waits", error=str(error))
    finally:
        # a process forked later must not inherit this connection
        database.close()


@heartbeat_sent.connect
def _touch_heartbeat_file(**_: Any) -> None:
    """Show a health check that the worker's main process lives, without asking it over Redis."""
    if (path := _heartbeat_file()) is not None:
        path.touch()


@cache
def _heartbeat_file() -> Path | None:
    return load_settings().worker_heartbeat_file


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
