"""What happens around tasks: JSON logs, a request id from the HTTP API to the last task, connections per process."""

import os
import re
import signal
import threading
import uuid
from functools import cache
from pathlib import Path
from typing import Any

import structlog
from billiard import active_children
from celery.platforms import EX_FAILURE
from celery.signals import (
    before_task_publish,
    heartbeat_sent,
    setup_logging,
    task_postrun,
    task_prerun,
    worker_init,
    worker_process_init,
    worker_ready,
)

from pipeline.store.database import Database
from schemas.errors import BackscrollError
from schemas.settings import load_settings
from workers import resources
from workers.logging import configure_logging

log = structlog.get_logger(__name__)

REQUEST_ID = "request_id"
# It goes into logs, task headers and the database, where no other character may be misread.
_ACCEPTABLE_REQUEST_ID = re.compile(r"[A-Za-z0-9._:/+=@-]{1,128}")
# A worker that is told to end gives its tasks their time; closing pools and connections then takes a moment,
# unless a thread or a Redis that is away holds it up for ever.
CLOSING_SECONDS = 10.0


def current_request_id() -> str | None:
    """The id of the request that this thread works for, if it does."""
    known = structlog.contextvars.get_contextvars().get(REQUEST_ID)
    return None if known is None else str(known)


def request_id_of(*given: object) -> str:
    """The first acceptable id of those that a sender gave, or a new one."""
    fitting = (each for each in given if isinstance(each, str) and _ACCEPTABLE_REQUEST_ID.fullmatch(each))
    return next(fitting, None) or uuid.uuid4().hex


@setup_logging.connect
def _log_as_json(**_: Any) -> None:
    configure_logging(load_settings().log_level)


@before_task_publish.connect
def _pass_request_id(headers: dict[str, Any] | None = None, **_: Any) -> None:
    if headers is not None:
        headers.setdefault(REQUEST_ID, request_id_of(current_request_id()))


@task_prerun.connect
def _bind_request_id(task: Any = None, task_id: str | None = None, **_: Any) -> None:
    structlog.contextvars.clear_contextvars()
    # A bot may send one of its own in the task's headers.
    request_id = request_id_of(getattr(task.request, REQUEST_ID, None) if task else None, task_id)
    structlog.contextvars.bind_contextvars(request_id=request_id, task=getattr(task, "name", None))


@task_postrun.connect
def _unbind(**_: Any) -> None:
    structlog.contextvars.clear_contextvars()


@worker_process_init.connect
def _drop_inherited(**_: Any) -> None:
    # The parent's connections must not be used by two; `current` makes new ones for this process.
    resources.current()


@worker_ready.connect
def _tell_what_it_waits_for(**_: Any) -> None:
    """Say at the start why nothing will be done: no task may come to tell it."""
    database = Database.from_settings(load_settings())
    try:
        database.check()
    except BackscrollError as error:
        log.warning("worker_waits", error=str(error))
    finally:
        # whoever is forked off later must not find this connection
        database.close()


@heartbeat_sent.connect
def _touch_heartbeat_file(**_: Any) -> None:
    """Let a health check see the worker's main process live, without asking it over Redis."""
    if (path := _heartbeat_file()) is not None:
        path.touch()


@cache
def _heartbeat_file() -> Path | None:
    return load_settings().worker_heartbeat_file


@worker_init.connect
def _bound_shutdown(sender: Any, **_: Any) -> None:
    # Celery has no signal between the tasks' time and the closing, which waits for threads without end.
    give_time, stop = sender.wait_for_soft_shutdown, sender.stop

    def give_time_then_watch() -> None:
        give_time()
        _watch()

    def watch_when_broken(in_sighandler: bool = False, exitcode: int | None = None) -> None:
        # its main loop has failed: nobody reads what children have to say, and closing may wait for just that
        if exitcode == EX_FAILURE:
            _watch()
        stop(in_sighandler=in_sighandler, exitcode=exitcode)

    sender.wait_for_soft_shutdown = give_time_then_watch
    sender.stop = watch_when_broken


def _watch() -> None:
    """From now on closing may take `CLOSING_SECONDS`."""
    watchdog = threading.Timer(CLOSING_SECONDS, _end_now)
    watchdog.daemon = True
    watchdog.start()


def _end_now() -> None:
    """End this process and its children; what they held is done by others after the lease."""
    log.error("shutdown_hung", seconds=CLOSING_SECONDS)
    for child in active_children():
        os.kill(child.pid, signal.SIGKILL)
    os._exit(1)
