"""Run child processes, and restart those that end by themselves."""

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ops.local.embedded.folder import rotate
from ops.local.embedded.process import die_with_parent

FIRST_RESTART_SECONDS = 1.0
LAST_RESTART_SECONDS = 30.0
# The delay is the last one by then; 2 to the power of thousands is no float.
MAX_DOUBLINGS = 10
# A child that ran this long is restarted with the shortest delay again.
STEADY_SECONDS = 60.0
POLL_SECONDS = 0.05


@dataclass(kw_only=True)
class Child:
    """A process that must run, and its state."""

    name: str
    command: Sequence[str]
    log_path: Path
    # added to the environment of all
    environment: Mapping[str, str] = field(default_factory=dict)
    process: "subprocess.Popen[bytes] | None" = None
    started_at: float = 0.0
    # unrequested exits in a row, each soon after a start
    failures: int = 0
    # monotonic time of its next start; None while it runs
    restart_at: float | None = None


class Supervisor:
    """The children of one `backscroll up`; `say` gets a sentence for what happens to one.

    Called from the main thread: for the kernel the parent of a child is the thread that started it.
    """

    def __init__(self, environment: Mapping[str, str], log_dir: Path, say: Callable[[str], None]) -> None:
        self.children: list[Child] = []
        self._environment = environment
        self._log_dir = log_dir
        self._say = say

    def start(self, name: str, command: Sequence[str], environment: Mapping[str, str] | None = None) -> None:
        """Start a child, whose output goes to `NAME.log`."""
        log_path = self._log_dir / f"{name}.log"
        child = Child(name=name, command=command, log_path=log_path, environment=environment or {})
        self.children.append(child)
        self._spawn(child)

    def tend(self) -> None:
        """Restart children that ended by themselves, after growing delays, and rotate logs. Call it often."""
        now = time.monotonic()
        for child in self.children:
            self.rotate(child.log_path)
            if child.restart_at is not None:
                if now >= child.restart_at:
                    self._spawn(child)
            elif child.process is not None and (code := child.process.poll()) is not None:
                lasted = now - child.started_at
                child.failures = 1 if lasted > STEADY_SECONDS else child.failures + 1
                doublings = min(child.failures - 1, MAX_DOUBLINGS)
                delay = min(FIRST_RESTART_SECONDS * 2**doublings, LAST_RESTART_SECONDS)
                child.restart_at = now + delay
                self._say(
                    f"{child.name} ended {_how(code)} after {lasted:.0f} s; restarting it in "
                    f"{delay:.0f} s. Its log: {child.log_path}"
                )

    def failed_twice(self, name: str) -> bool:
        """Return whether this child has ended by itself twice in a row, each time soon after its start."""
        return any(child.name == name and child.failures > 1 for child in self.children)

    def wait(self, seconds: float) -> None:
        """Tend the children for a while."""
        deadline = time.monotonic() + seconds
        while True:
            self.tend()
            left = deadline - time.monotonic()
            if left <= 0:
                return
            time.sleep(min(left, POLL_SECONDS * 4))

    def stop(self, patience: float) -> None:
        """End all children by TERM, and by KILL after `patience` seconds."""
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
            # the whole session: pool processes may outlive the child
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def rotate(self, path: Path) -> None:
        """Keep a log within its size."""
        try:
            rotate(path)
        except OSError as error:
            self._say(f"{path} was truncated, and what it held is lost: {error}")

    def _spawn(self, child: Child) -> None:
        log = os.open(child.log_path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            child.process = subprocess.Popen(
                child.command,
                env={**self._environment, **child.environment},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                # Ctrl-C in the terminal reaches only us, who stop them in order
                start_new_session=True,
                preexec_fn=die_with_parent(signal.SIGKILL),
            )
        finally:
            os.close(log)
        child.started_at = time.monotonic()
        child.restart_at = None


def _how(code: int) -> str:
    return f"by {signal.Signals(-code).name}" if code < 0 else f"with code {code}"
