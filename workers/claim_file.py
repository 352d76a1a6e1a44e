"""What a process leaves for others: its claims in a file, and the settings that it runs with in Postgres.

The file is locked (`flock`) while its process lives, and the kernel unlocks it at its end, whatever the cause: no
process id is mistaken for another's. Files of other hosts and other databases are left alone.
"""

import atexit
import fcntl
import json
import os
import secrets
import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from socket import gethostname

import structlog

from pipeline.store.connections.database import Database
from pipeline.store.jobs import claims as store
from pipeline.store.jobs.jobs import Claim
from pipeline.store.operations import stats
from schemas.errors import BackscrollError
from schemas.settings import Settings
from workers.logging import OUTAGES

log = structlog.get_logger(__name__)


class ClaimFile:
    """The claims of one process; if it cannot write a file, its claims return when their leases end."""

    def __init__(self, settings: Settings) -> None:
        self._lock = threading.Lock()
        self._tokens: set[int] = set()
        self._file: int | None = None
        try:
            folder = _folder(settings)
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            # renamed once it is locked, as others look for that name only
            fresh = folder / f".{secrets.token_hex(8)}"
            self._file = os.open(fresh, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
            fcntl.flock(self._file, fcntl.LOCK_EX)
            fresh.rename(folder / f"{os.getpid()}-{fresh.name[1:]}.json")
        except OSError as error:
            self._do_without(error)

    @contextmanager
    def holding(self, claims: Sequence[Claim]) -> Iterator[None]:
        """Keep these claims in the file during a block."""
        tokens = {claim.token for claim in claims}
        self._write(tokens, set())
        try:
            yield
        finally:
            self._write(set(), tokens)

    def _write(self, more: set[int], fewer: set[int]) -> None:
        with self._lock:
            self._tokens = (self._tokens | more) - fewer
            if self._file is None or not (more or fewer):
                return
            text = json.dumps(sorted(self._tokens)).encode()
            try:
                os.pwrite(self._file, text, 0)
                os.ftruncate(self._file, len(text))
            except OSError as error:
                self._do_without(error)

    def _do_without(self, error: OSError) -> None:
        self._file = None
        log.warning("claims_not_noted", error=str(error))


def release_dead(settings: Settings, database: Database) -> None:
    """Release claims of dead processes of this host, with the delay of a failed attempt."""
    for path in _folder(settings).glob("*.json"):
        try:
            file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
        except FileNotFoundError:
            # another worker has just started, too
            continue
        with os.fdopen(file, "rb") as dead:
            try:
                fcntl.flock(dead, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                # its process lives
                continue
            try:
                tokens = json.load(dead)
            except ValueError:
                # it died while writing, or before it had claimed anything
                tokens = []
            if tokens:
                with database.maintenance() as connection:
                    released = store.release_dead(connection, tokens)
                log.warning("claims_of_dead_worker", process=path.stem.partition("-")[0], released=released)
            path.unlink()


def _folder(settings: Settings) -> Path:
    url = settings.database_url.get_secret_value() if settings.database_url else ""
    place = sha256(f"{socket.gethostname()}\0{url}".encode()).hexdigest()[:16]
    return settings.data_dir / "claims" / place


outage_log = structlog.get_logger(OUTAGES)

# At the end Postgres is not waited for long: who does not say that it ends is soon taken for gone.
SEEN_SECONDS, END_SECONDS = 10.0, 2.0
_stating: list[tuple[threading.Thread, threading.Event]] = []


def start_stating(kind: str, settings: Settings, database: Database, *others: Database) -> None:
    """State settings and connections from now on, after any fork, until `stop_stating` or the end of the process."""
    connections = sum(each.connections for each in (database, *others))
    process = stats.RunningProcess(kind, gethostname(), os.getpid(), settings.stated(), connections)
    ended = threading.Event()

    def keep() -> None:
        ends, seconds = False, 0.0
        while not ends:
            ends, seconds = ended.wait(seconds), SEEN_SECONDS
            try:
                with database.tenant("") as connection:
                    stats.state_process(connection, process, ends=ends)
            except BackscrollError as error:
                outage_log.warning("settings_not_stated", error=str(error))

    thread = threading.Thread(target=keep, name="state-settings", daemon=True)
    thread.start()
    _stating.append((thread, ended))


@atexit.register
def stop_stating() -> None:
    """Say that this process ends, where it runs no exit handlers."""
    while _stating:
        thread, ended = _stating.pop()
        ended.set()
        thread.join(END_SECONDS)
