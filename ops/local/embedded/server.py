"""Base of the embedded servers, their processes and free ports: one per data folder, which ends with its starter."""

import contextlib
import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
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
    rights,
    rotate,
    take,
    write_private,
)
from schemas.errors import Permanent

# Whether a server surely ends with the process that started it.
ENDS_WITH_STARTER = sys.platform == "linux"
_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None) if ENDS_WITH_STARTER else None
# For the kernel the parent is the thread that started a process, so that thread must not end before us.
_lasting_thread = ThreadPoolExecutor(1, thread_name_prefix="backscroll-embedded")


def spawn(
    command: Sequence[str | Path],
    *,
    directory: Path,
    account: Account | None,
    config: bytes,
    log: int,
    keep_open: int,
    death_signal: signal.Signals,
) -> subprocess.Popen[bytes]:
    """Start a server in its directory as the account, with its configuration on standard input.

    It writes to the descriptor `log` and inherits `keep_open`. When the calling process dies, the server gets the
    `death_signal` (Linux). Raises `OSError` or `subprocess.SubprocessError`.
    """

    def start() -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            command,
            cwd=directory,
            env={"PATH": os.defpath},
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            pass_fds=[keep_open],
            umask=0o077,
            # Ctrl-C in the terminal must not reach the servers, which are stopped last
            start_new_session=True,
            preexec_fn=die_with_parent(death_signal),
            **rights(account),
        )

    lasting = threading.current_thread() is threading.main_thread()
    child = start() if lasting else _lasting_thread.submit(start).result()
    if child.stdin is not None:
        # if it ended at once, its waiter notices
        with contextlib.suppress(BrokenPipeError), child.stdin:
            child.stdin.write(config)
    return child


def end(child: subprocess.Popen[bytes], requests: Sequence[signal.Signals], patience: float) -> None:
    """End the process by these signals, with `patience` seconds after each; then kill it and its children."""
    for request in requests:
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.send_signal(request)
            child.wait(patience)
            return
    kill_family(child.pid)
    child.wait()


def kill_family(pid: int) -> None:
    """Kill the process and its children; it is stopped first, so that it starts no more of them."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGSTOP)
        for member in (*children()[pid], pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(member, signal.SIGKILL)


def exists(pid: int) -> bool:
    """Return whether there is a process of this number, of any user."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def children() -> dict[int, list[int]]:
    """List the children of each process, if the system has /proc."""
    by_parent: dict[int, list[int]] = defaultdict(list)
    for path in Path("/proc").glob("[0-9]*/stat"):
        # a process may end while we look
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            # "pid (name) state parent …", where the name may hold any character
            parent = int(path.read_text(errors="replace").rpartition(")")[2].split()[1])
            by_parent[parent].append(int(path.parent.name))
    return by_parent


def is_stopped(pid: int) -> bool:
    """Return whether a signal has stopped the process, as SIGSTOP does, if the system has /proc."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[0] == "T"
    except (FileNotFoundError, ProcessLookupError):
        return False


def die_with_parent(request: signal.Signals) -> Callable[[], None]:
    """Make the `preexec_fn` by which a process gets the signal when its parent dies."""
    parent = os.getpid()

    def before_exec() -> None:
        if _libc is not None:
            _libc.prctl(_PR_SET_PDEATHSIG, int(request))
            if os.getppid() != parent:  # the parent died before the request took effect
                os._exit(1)

    return before_exec


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
