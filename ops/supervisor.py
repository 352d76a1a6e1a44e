"""Runs child processes until told to stop: ends with them, starts them again when they end by themselves.

Each child has its own session, so that Ctrl-C in the terminal reaches only us and we stop them in order; it
is told to end when we die, however that happens (Linux).
"""

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ops.embedded.logfile import rotate
from ops.embedded.process import die_with_parent

FIRST_RESTART_SECONDS = 1.0
LAST_RESTART_SECONDS = 30.0
# From here on the delay is the last one; a number of a thousand digits is no float.
MOST_DOUBLINGS = 10
# A child that lasted so long is trusted again: its next restart comes soon.
STEADY_SECONDS = 60.0
POLL_SECONDS = 0.05


@dataclass(kw_only=True)
class Child:
    """A process that is to run, and how it does."""

    name: str
    command: Sequence[str]
    log_path: Path
    # on top of the environment of all
    environment: Mapping[str, str] = field(default_factory=dict)
    process: "subprocess.Popen[bytes] | None" = None
    started_at: float = 0.0
    # how often it ended by itself, one soon after the other
    failures: int = 0
    # the moment of its next start; none: it runs
    restart_at: float | None = None


class Supervisor:
    """The children of one `backscroll up`.

    `say` is told, in a sentence, what happens to a child. All methods are to be called from the main thread:
    the kernel counts the thread that started a child as its parent.
    """

    def __init__(self, environment: Mapping[str, str], log_dir: Path, say: Callable[[str], None]) -> None:
        self.children: list[Child] = []
        self._environment = environment
        self._log_dir = log_dir
        self._say = say

    def start(self, name: str, command: Sequence[str], environment: Mapping[str, str] | None = None) -> None:
        """Start a child; what it writes goes to `NAME.log`."""
        child = Child(
            name=name,
            command=command,
            log_path=self._log_dir / f"{name}.log",
            environment=environment or {},
        )
        self.children.append(child)
        self._spawn(child)

    def tend(self) -> None:
        """Start again what ended by itself, after a delay that grows with each time, and keep logs within their size.

        To be called often.
        """
        now = time.monotonic()
        for child in self.children:
            self._rotate(child.log_path)
            if child.restart_at is not None:
                if now >= child.restart_at:
                    self._spawn(child)
            elif child.process is not None and (code := child.process.poll()) is not None:
                lasted = now - child.started_at
                child.failures = 1 if lasted > STEADY_SECONDS else child.failures + 1
                doublings = min(child.failures - 1, MOST_DOUBLINGS)
                delay = min(FIRST_RESTART_SECONDS * 2**doublings, LAST_RESTART_SECONDS)
                child.restart_at = now + delay
                self._say(
                    f"{child.name} ended {_how(code)} after {lasted:.0f} s; starting it again in "
                    f"{delay:.0f} s. Its log: {child.log_path}"
                )

    def failed_twice(self, name: str) -> bool:
        """Whether this child has ended by itself more than once, one time soon after the other."""
        return any(child.name == name and child.failures > 1 for child in self.children)

    def wait(self, seconds: float) -> None:
        """Tend the children for so long."""
        deadline = time.monotonic() + seconds
        while True:
            self.tend()
            left = deadline - time.monotonic()
            if left <= 0:
                return
            time.sleep(min(left, POLL_SECONDS * 4))

    def stop(self, patience: float) -> None:
        """End all children: TERM, and KILL to what is left of them after `patience` seconds."""
        running = [child.process for child in self.children if child.process is not None]
        self.children.clear()
        for process in running:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + patience
        for process in running:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(max(0.0, deadline - time.monotonic()))
        for process in running:
            # its session, in which pool processes may have outlived it
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def _rotate(self, path: Path) -> None:
        try:
            rotate(path)
        except OSError as error:
            self._say(f"{path} was cut off, and what it held is not kept: {error}")

    def _spawn(self, child: Child) -> None:
        log = os.open(child.log_path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            child.process = subprocess.Popen(
                child.command,
                env={**self._environment, **child.environment},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=die_with_parent(signal.SIGKILL),
            )
        finally:
            os.close(log)
        child.started_at = time.monotonic()
        child.restart_at = None


def _how(code: int) -> str:
    return f"by {signal.Signals(-code).name}" if code < 0 else f"with code {code}"
