"""State in Postgres what this process runs with, as long as it lives: `pipeline.operations.deployment` reads it."""

import atexit
import os
import threading
from socket import gethostname

import structlog

from pipeline.store.connections.database import Database
from pipeline.store.operations import processes
from schemas.errors import BackscrollError
from schemas.settings import Settings
from workers.logging import OUTAGES

log = structlog.get_logger(OUTAGES)

# At the end Postgres is not waited for long: who does not say that it ends is soon taken for gone.
SEEN_SECONDS, END_SECONDS = 10.0, 2.0
_started: list[tuple[threading.Thread, threading.Event]] = []


def start(kind: str, settings: Settings, database: Database) -> None:
    """State the settings from now on, after any fork, until `stop` or the end of the process."""
    process = processes.Process(kind, gethostname(), os.getpid(), settings.stated())
    ended = threading.Event()

    def keep() -> None:
        ends, seconds = False, 0.0
        while not ends:
            ends, seconds = ended.wait(seconds), SEEN_SECONDS
            try:
                with database.tenant("") as connection:
                    processes.state(connection, process, ends=ends)
            except BackscrollError as error:
                log.warning("settings_not_stated", error=str(error))

    thread = threading.Thread(target=keep, name="state-settings", daemon=True)
    thread.start()
    _started.append((thread, ended))


@atexit.register
def stop() -> None:
    """Say that this process ends, where it runs no exit handlers."""
    while _started:
        thread, ended = _started.pop()
        ended.set()
        thread.join(END_SECONDS)
