"""Runs one server process per folder: never two at once, never longer than the process that started it.

The lock is a file that the server itself keeps open (and locked, `flock`) through the descriptor it inherits:
the kernel lets go of it when the last of the server's processes is gone, however it went. So "is it running" has
one true answer, after any crash, with no process number to be mistaken for another's.

A server ends with the process that started it: the kernel sends it the signal of an orderly shutdown when that
process dies (`PR_SET_PDEATHSIG`, Linux), also when that was killed outright.
"""

import contextlib
import ctypes
import fcntl
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

from ops.embedded.account import Account
from ops.embedded.folder import explained, write_private
from schemas.errors import Permanent

LOG_LIMIT_BYTES = 10_000_000
POLL_SECONDS = 0.02

_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None) if sys.platform == "linux" else None
# The kernel's "parent" is the thread that started the server, so a short-lived thread must not be that one.
_lasting_thread = ThreadPoolExecutor(1, thread_name_prefix="backscroll-embedded")


class ServerFailed(Permanent):
    """An embedded server did not start, or not in time; the message carries the end of its log."""


@dataclass(frozen=True)
class State:
    """Where the server of a folder is, or last was, to be reached; readable for every process of its user."""

    pid: int  # 0: on its way, or not running
    started_by: int  # the process that it ends with
    port: int
    socket_dir: str = ""
    tcp: bool = False


class Server:
    """The process of the server called `name`, its lock, log and state in `folder`."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        self.lock_path = folder / f"{name}.lock"
        self.log_path = folder / f"{name}.log"
        self.state_path = folder / f"{name}.json"
        self._child: subprocess.Popen[bytes] | None = None
        self._log_start = 0

    def is_running(self) -> bool:
        """Whether the server is up, whoever started it."""
        return bool(self.pid)

    @property
    def pid(self) -> int | None:
        """The server's process number, or None when it is not running."""
        state = self.state()
        return state.pid if state and state.pid and self._is_locked() else None

    @property
    def is_ours(self) -> bool:
        """Whether this object started the server that runs now."""
        return self._child is not None and self._child.poll() is None

    def state(self) -> State | None:
        """What was last published about the server; None when it never ran."""
        try:
            return State(**json.loads(self.state_path.read_bytes()))
        except FileNotFoundError:
            return None

    def publish(self, state: State) -> None:
        """Tell other processes how to reach the server."""
        write_private(self.state_path, json.dumps(asdict(state)))

    def lock(self, answers: Callable[[State], bool], timeout: float) -> int | None:
        """A descriptor of the lock, for us to start the server; or None when one already runs and answers.

        One that is starting, or on its way out, is waited for. Raises `ServerFailed` after `timeout` seconds.
        """
        with explained(self.lock_path.parent):
            descriptor = os.open(self.lock_path, os.O_RDONLY | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        deadline = time.monotonic() + timeout
        while True:
            with contextlib.suppress(BlockingIOError):
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return descriptor
            state = self.state()
            if state and state.pid and _exists(state.started_by) and answers(state):
                os.close(descriptor)
                return None
            if time.monotonic() > deadline:
                os.close(descriptor)
                raise self.failure(
                    f"another one holds {self.lock_path} and does not answer within {timeout:.0f} s"
                )
            time.sleep(POLL_SECONDS)

    def spawn(
        self,
        command: Sequence[str | Path],
        *,
        lock: int,
        directory: Path,
        account: Account | None,
        death_signal: signal.Signals,
        config: bytes = b"",
    ) -> int:
        """Start the server in its directory, with the configuration on its standard input; returns its number."""
        if self.log_path.exists() and self.log_path.stat().st_size > LOG_LIMIT_BYTES:
            self.log_path.replace(self.log_path.with_suffix(".log.1"))
        with explained(self.log_path.parent):
            log = os.open(self.log_path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        self._log_start = os.fstat(log).st_size

        def popen() -> subprocess.Popen[bytes]:
            return subprocess.Popen(
                command,
                cwd=directory,
                env={"PATH": os.defpath},
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                pass_fds=[lock],
                user=account.uid if account else None,
                group=account.gid if account else None,
                extra_groups=[] if account else None,
                umask=0o077,
                # Ctrl-C in the terminal is for whoever started us; they stop the servers last
                start_new_session=True,
                preexec_fn=_die_with_parent(death_signal),  # noqa: PLW1509
            )

        try:
            on_main_thread = threading.current_thread() is threading.main_thread()
            self._child = popen() if on_main_thread else _lasting_thread.submit(popen).result()
        except (OSError, subprocess.SubprocessError) as error:
            raise self.failure(f"{command[0]} cannot be run: {error}") from error
        finally:
            os.close(log)
        pipe = self._child.stdin
        if pipe is not None:
            # one that is gone already is noticed by `wait_until`
            with contextlib.suppress(BrokenPipeError), pipe:
                pipe.write(config)
        return self._child.pid

    def wait_until(self, ready: Callable[[], bool], timeout: float) -> None:
        """Wait for the server that was spawned; raises `ServerFailed`, with it gone, when it does not get ready."""
        deadline = time.monotonic() + timeout
        while not ready():
            if not self.is_ours:
                raise self.failure("it ended while starting")
            if time.monotonic() > deadline:
                self.abandon()
                raise self.failure(f"it was not ready within {timeout:.0f} s")
            time.sleep(POLL_SECONDS)

    def stop(self, requests: Sequence[signal.Signals], patience: float) -> None:
        """Ask the server that this object started to end: politely first, at last by force.

        Takes at most `patience` seconds for each request. A server that somebody else started is left alone.
        """
        child = self._child
        if child is None:
            return
        for request in requests:
            with contextlib.suppress(ProcessLookupError, subprocess.TimeoutExpired):
                child.send_signal(request)
                child.wait(patience)
                break
        self.abandon()

    def abandon(self) -> None:
        """Make sure that the process which this object started is gone with all its children, and reaped."""
        child, self._child = self._child, None
        if child is not None:
            if child.poll() is None:
                _kill_family(child.pid)
            child.wait()

    def kill(self, timeout: float = 10) -> None:
        """SIGKILL the server with all its processes, as a crash would, whoever started it, and wait for the end."""
        pid = self.pid
        if pid is None:
            return
        _kill_family(pid)
        self.abandon()
        deadline = time.monotonic() + timeout
        while self._is_locked():
            if time.monotonic() > deadline:
                raise self.failure(f"it could not be killed within {timeout:.0f} s")
            time.sleep(POLL_SECONDS)

    def failure(self, reason: str) -> ServerFailed:
        """The error to raise about this server: the reason, and what its log says since it was started."""
        said = ""
        if self.log_path.exists():
            with self.log_path.open("rb") as log:
                log.seek(self._log_start)
                said = log.read()[-2000:].decode(errors="replace").strip()
        tail = f"\nThe end of {self.log_path}:\n{said}" if said else f"\nIts log is {self.log_path}."
        return ServerFailed(f"The embedded {self.name} did not start: {reason}.{tail}")

    def _is_locked(self) -> bool:
        try:
            descriptor = os.open(self.lock_path, os.O_RDONLY | os.O_NOFOLLOW)
        except FileNotFoundError:
            return False
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(descriptor)
        return False


def _die_with_parent(request: signal.Signals) -> Callable[[], None]:
    """What a new process must do first so that it gets the signal when the one that started it dies."""
    parent = os.getpid()

    def before_exec() -> None:
        if _libc is not None:
            _libc.prctl(_PR_SET_PDEATHSIG, int(request))
            if os.getppid() != parent:  # it died before we could say so
                os._exit(1)

    return before_exec


def _kill_family(pid: int) -> None:
    """SIGKILL the process and its children; it is stopped first, so that it makes no more of them meanwhile."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGSTOP)
        for member in (*_children(pid), pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(member, signal.SIGKILL)


def _children(parent: int) -> list[int]:
    """The process numbers of the children, where the system shows them in /proc (else they end by themselves)."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        # a process may end while we look
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            # "pid (name) state parent …", and the name may hold anything
            if int(path.read_text(errors="replace").rpartition(")")[2].split()[1]) == parent:
                found.append(int(path.parent.name))
    return found


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
