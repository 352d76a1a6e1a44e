"""Base of the embedded servers, with free ports: one per data folder, which ends with the process that started it."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import ClassVar, Self

from ops.local.embedded.folder import (
    Account,
    explained,
    is_taken,
    make_folder,
    open_lock,
    open_private,
    rotate,
    take,
    write_private,
)
from ops.local.embedded.process import ENDS_WITH_STARTER, end, exists, kill_family, spawn
from schemas.errors import Permanent

POLL_SECONDS = 0.02
KILL_SECONDS = 10.0


class ServerFailed(Permanent):
    """An embedded server did not start; the message says why, with the end of its log."""


@dataclass(frozen=True)
class ServerState:
    """The present or last address of a folder's server."""

    port: int
    tcp: bool = True
    socket_dir: str = ""
    pid: int = 0  # 0: starting, or never ready
    started_by: int = 0  # the process that it ends with


@dataclass(frozen=True)
class Launch:
    """The command that starts a server, and its address."""

    command: list[str | Path]
    directory: Path
    account: Account | None
    state: ServerState
    config: bytes = b""


class EmbeddedServer(ABC):
    """A server with its data in `data_dir`; `port` of the loopback address, or None for any."""

    name: ClassVar[str]
    start_seconds: ClassVar[float]
    # after each of the signals
    stop_seconds: ClassVar[float]
    stop_signals: ClassVar[tuple[signal.Signals, ...]]

    def __init__(self, data_dir: Path, port: int | None) -> None:
        self.data_dir = data_dir.absolute()
        self.log_path = self.data_dir / f"{self.name}.log"
        self._port = port
        self._lock_path = self.data_dir / f"{self.name}.lock"
        self._state_path = self.data_dir / f"{self.name}.json"
        self._child: subprocess.Popen[bytes] | None = None
        self._log_start = 0

    @abstractmethod
    def _prepare(self) -> Launch:
        """Prepare data folder and settings for a start."""

    @abstractmethod
    def _answers(self, state: ServerState) -> bool:
        """Return whether the server can be used there."""

    def _complete(self) -> None:  # noqa: B027 - not every server needs more
        """Complete the start with the running server, before it is published."""

    def start(self) -> None:
        """Start the server, unless it runs. Raises `DataFolderError`, `ProgramMissing`, `PortTaken`, `ServerFailed`."""
        make_folder(self.data_dir)
        lock = self._lock()
        if lock is None:
            return
        try:
            self._launch(lock)
        finally:
            os.close(lock)

    def stop(self) -> None:
        """End the server cleanly, or by force; one that another process started stays."""
        child, self._child = self._child, None
        if child is not None:
            end(child, self.stop_signals, self.stop_seconds)

    def kill(self) -> None:
        """Kill the server with all its processes, as a crash would, whoever started it."""
        pid = self.pid
        if pid is None:
            return
        kill_family(pid)
        child, self._child = self._child, None
        if child is not None:
            child.wait()
        deadline = time.monotonic() + KILL_SECONDS
        while is_taken(self._lock_path):
            if time.monotonic() > deadline:
                raise ServerFailed(f"The embedded {self.name}, process {pid}, could not be killed.")
            time.sleep(POLL_SECONDS)

    def is_running(self) -> bool:
        """Return whether the server runs, whoever started it."""
        return self.pid is not None

    @property
    def is_ours(self) -> bool:
        """Whether this object has started the running server, so that `stop` ends it."""
        return self._child is not None and self._child.poll() is None

    @property
    def pid(self) -> int | None:
        """The process number of the server, or None if it does not run."""
        state = self._state()
        if state is None or not state.pid or not is_taken(self._lock_path):
            return None
        if self._child is not None:
            self._child.poll()  # an ended child exists until it is waited for
        return state.pid if exists(state.pid) else None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _state(self) -> ServerState | None:
        """Read where the server can be reached; None if it never ran."""
        try:
            return ServerState(**json.loads(self._state_path.read_bytes()))
        except FileNotFoundError:
            return None

    def _publish(self, state: ServerState) -> None:
        write_private(self._state_path, json.dumps(asdict(state)))

    def _lock(self) -> int | None:
        """Lock the data for a start, once no server starts or stops; returns None if one runs and answers."""
        with explained(self.data_dir):
            descriptor = open_lock(self._lock_path)
        deadline = time.monotonic() + self.start_seconds
        with contextlib.ExitStack() as otherwise:
            otherwise.callback(os.close, descriptor)
            while not take(descriptor):
                state = self._state()
                # one whose starter has ended gets a signal to end
                lasts = state and (exists(state.started_by) or not ENDS_WITH_STARTER)
                if state and state.pid and lasts and self._answers(state):
                    return None
                if time.monotonic() > deadline:
                    raise ServerFailed(
                        f"Another embedded {self.name} holds {self._lock_path}, and did not answer within "
                        f"{self.start_seconds:.0f} s. See {self.log_path}, and end it."
                    )
                time.sleep(POLL_SECONDS)
            otherwise.pop_all()
            return descriptor

    def _launch(self, lock: int) -> None:
        launch = self._prepare()
        self.stop()  # collects an earlier process that another process has ended
        state = replace(launch.state, started_by=os.getpid())
        self._publish(state)
        log = self._open_log()
        try:
            self._child = spawn(
                launch.command,
                directory=launch.directory,
                account=launch.account,
                config=launch.config,
                log=log,
                keep_open=lock,
                death_signal=self.stop_signals[0],
            )
            self._wait_until(lambda: self._answers(state))
            self._complete()
            self._publish(replace(state, pid=self._child.pid))
        except (OSError, subprocess.SubprocessError) as error:
            self.stop()
            raise self._failure(f"{launch.command[0]} cannot be run: {error}") from error
        except BaseException:
            self.stop()
            raise
        finally:
            os.close(log)

    def _open_log(self) -> int:
        with explained(self.data_dir):
            rotate(self.log_path)
            log = open_private(self.log_path, os.O_WRONLY | os.O_APPEND)
        self._log_start = os.fstat(log).st_size
        return log

    def _wait_until(self, ready: Callable[[], bool]) -> None:
        deadline = time.monotonic() + self.start_seconds
        while not ready():
            if not self.is_ours:
                raise self._failure("it ended while it started")
            if time.monotonic() > deadline:
                raise self._failure(f"it was not ready within {self.start_seconds:.0f} s")
            time.sleep(POLL_SECONDS)

    def _failure(self, reason: str) -> ServerFailed:
        """Make the error of a start, with the reason and the log since then."""
        with self.log_path.open("rb") as log:
            log.seek(self._log_start)
            logged = log.read()[-2000:].decode(errors="replace").strip()
        tail = f"The end of {self.log_path}:\n{logged}" if logged else f"Its log is {self.log_path}."
        return ServerFailed(f"The embedded {self.name} did not start: {reason}.\n{tail}")


LOOPBACK = "127.0.0.1"


class PortTaken(Permanent):
    """A port that was named cannot be listened on."""


@contextlib.contextmanager
def reserved_port(port: int, host: str = LOOPBACK) -> Iterator[int]:
    """Keep a port, any free one for 0, for a server of ours during a block. Raises `OSError` if it cannot be had.

    On Linux our own processes can still listen on it meanwhile, but no other deployment on this machine reserves it,
    and the kernel uses it for no outgoing connection.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as holder, contextlib.ExitStack() as cleanup:
        # as servers do: connections in TIME_WAIT do not count
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind((host, port))
        port = int(holder.getsockname()[1])
        if sys.platform == "linux":
            # a name that the kernel knows, for all users, until this process ends in whatever way
            claim = cleanup.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
            claim.bind(f"\0backscroll-port-{port}")
        else:
            holder.close()
        yield port


def free_port(host: str = LOOPBACK) -> int:
    """Find a TCP port on which nothing listens now; another program may still take it first."""
    with reserved_port(0, host) as port:
        return port


def is_free_port(port: int, host: str = LOOPBACK) -> bool:
    """Return whether a server could listen on the port now."""
    try:
        with reserved_port(port, host):
            return True
    except OSError:
        return False
