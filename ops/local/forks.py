"""Start Python processes of Backscroll as forks of one that has imported everything.

They are there at once, and share the memory of what was imported: a process of its own took three seconds of processor
time and 100 MB. The forking process runs no thread and knows no secrets; each fork gets its environment.
"""

import contextlib
import ctypes
import gc
import importlib
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

from ops.local.embedded.server import die_with_parent

# -P: the working directory may hold packages of the same names as ours
PYTHON = (sys.executable, "-P", "-m")
_PRELOADED = (
    "workers.api.app",
    "workers.metrics.collector",
    "workers.signals",
    "workers.tasks",
    "celery.bin.celery",
    "celery.apps.beat",
    "celery.apps.worker",
    "flower.command",
)
_PR_SET_NAME = 15
_POLL_SECONDS = 0.02
# bytes of a request, which is a packet
_LONGEST = 1 << 20


def _is_supported() -> bool:
    """Tell whether ends of processes can be waited for along with requests: Linux 5.3, unless a sandbox forbids it."""
    try:
        os.close(os.pidfd_open(os.getpid()))
    except (AttributeError, OSError):
        return False
    return True


SUPPORTED = _is_supported()


class Fork:
    """A started process, with what the supervisor uses of `subprocess.Popen`."""

    def __init__(self, pid: int, forks: "Forks") -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._forks = forks

    def poll(self) -> int | None:
        """Return its exit code, negative for a signal; None while it runs."""
        self._forks.note_ends()
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end. Raises `subprocess.TimeoutExpired`."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while (code := self.poll()) is None:
            if deadline is not None and timeout is not None and time.monotonic() >= deadline:
                raise subprocess.TimeoutExpired(f"process {self.pid}", timeout)
            time.sleep(_POLL_SECONDS)
        return code

    def send_signal(self, request: int) -> None:
        """Send it a signal, if it runs."""
        if self.poll() is None:
            os.kill(self.pid, request)


def is_module(command: Sequence[str]) -> bool:
    """Tell whether a command runs a Python module, so that it can be a fork."""
    return tuple(command[: len(PYTHON)]) == PYTHON


class Forks:
    """The forking process, as its user sees it. To be made in the main thread, with which it ends."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        """Start it, to import while other things start."""
        self._environment = environment
        self._running: dict[int, Fork] = {}
        self._start()

    def start(self, name: str, command: Sequence[str], environment: Mapping[str, str], log: str) -> Fork:
        """Start `python -P -m …` as a fork, with exactly this environment, its output appended to `log`.

        Raises `OSError` if that cannot be done now.
        """
        if self._process.poll() is not None:
            self.close()
            self._start()
        # the system cuts longer names
        request = {
            "name": name.removeprefix("worker-"),
            "arguments": command[len(PYTHON) :],
            "environment": {**environment},
            "log": log,
        }
        self._channel.sendall(json.dumps(request).encode())
        pid = self._note(waiting=True)
        if pid is None:
            raise OSError(f"the process that starts {name} has ended with {self._process.wait()}")
        self._running[pid] = Fork(pid, self)
        return self._running[pid]

    def note_ends(self) -> None:
        """Note which forks have ended."""
        self._note()

    def close(self) -> None:
        """End the forking process, and with it what it has started."""
        self._channel.close()
        self._process.kill()
        self._process.wait()
        self._note_end_of_all()

    def _note_end_of_all(self) -> None:
        """Note that the forking process was killed, and each fork with it."""
        for fork in self._running.values():
            fork.returncode = -signal.SIGKILL
        self._running.clear()

    def _start(self) -> None:
        self._channel, theirs = socket.socketpair(type=socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [*PYTHON, "ops.local.forks", str(theirs.fileno())],
                env=self._environment,
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
                preexec_fn=die_with_parent(signal.SIGKILL),
            )

    def _note(self, *, waiting: bool = False) -> int | None:
        """Read what has been told; `waiting` for a started process, which is returned."""
        while waiting or select.select([self._channel], [], [], 0)[0]:
            reply = self._channel.recv(_LONGEST)
            if not reply:
                self._note_end_of_all()
                return None
            told = json.loads(reply)
            if "error" in told:
                raise OSError(told["error"])
            if "code" not in told:
                return int(told["pid"])
            if told["pid"] not in self._running:
                raise OSError(f"a new process ended at once with {told['code']}")
            self._running.pop(told["pid"]).returncode = told["code"]
        return None


def _serve(channel: socket.socket) -> dict[str, Any]:
    """Fork for each request, and tell of ends; only returns in a fork, with what it is to be."""
    running: dict[int, int] = {}
    while True:
        for ready in select.select([channel.fileno(), *running], [], [])[0]:
            if ready == channel.fileno():
                if not (request := channel.recv(_LONGEST)):
                    raise SystemExit
                end_with_us = die_with_parent(signal.SIGKILL)
                try:
                    pid = os.fork()
                except OSError as error:
                    _tell(channel, error=str(error))
                    continue
                if pid:
                    running[os.pidfd_open(pid)] = pid
                    continue
                end_with_us()
                # first, so that whoever is told its number can kill its session
                os.setsid()
                _tell(channel, pid=os.getpid())
                channel.close()
                for descriptor in running:
                    os.close(descriptor)
                asked: dict[str, Any] = json.loads(request)
                return asked
            pid = running.pop(ready)
            os.close(ready)
            _tell(channel, pid=pid, code=os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))


def _tell(channel: socket.socket, **told: Any) -> None:
    channel.sendall(json.dumps(told).encode())


def _become(name: str, arguments: Sequence[str], environment: Mapping[str, str], log: str) -> None:
    """Be the process asked for."""
    ctypes.CDLL(None).prctl(_PR_SET_NAME, name.encode())
    output = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.close(output)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = list(arguments)
    runpy.run_module(arguments[0], run_name="__main__", alter_sys=True)


def main() -> None:
    """Import everything, then fork."""
    for module in _PRELOADED:
        # Flower may not be installed
        with contextlib.suppress(ModuleNotFoundError):
            importlib.import_module(module)
    gc.collect()
    # what stays is not touched by the forks' garbage collections
    gc.freeze()
    _become(**_serve(socket.socket(fileno=int(sys.argv[1]))))


if __name__ == "__main__":
    main()
