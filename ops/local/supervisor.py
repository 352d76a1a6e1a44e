"""Run processes, and restart those that end by themselves or hang."""

import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ops.local.embedded.folder import rotate
from ops.local.embedded.server import EmbeddedServer, children, die_with_parent, is_stopped
from ops.local.forks import Fork, Forks, is_module
from schemas.errors import BackscrollError

FIRST_RESTART_SECONDS = 1.0
LAST_RESTART_SECONDS = 30.0
# The delay is the last one by then; 2 to the power of thousands is no float.
MAX_DOUBLINGS = 10
# A child that ran this long is restarted with the shortest delay again.
STEADY_SECONDS = 60.0
# Ends in a row, each soon after a start, after which no more is said until it runs again.
FAILING = 3
POLL_SECONDS = 0.05
# Hanging is counted in checks instead of seconds, as this process may have been paused, too.
CHECK_SECONDS = 5.0
STOPPED_CHECKS = 2
# A busy worker gives signs of life: its jobs have processes or threads of their own.
SILENT_CHECKS = 12


@dataclass(kw_only=True)
class Child:
    """A process that must run, and its state."""

    name: str
    log_path: Path
    command: Sequence[str] = ()
    # added to the environment of all
    environment: Mapping[str, str] = field(default_factory=dict)
    # says whether it has given a sign of life since it was last asked
    lives: Callable[[], bool] = lambda: True
    process: "subprocess.Popen[bytes] | Fork | None" = None
    # instead of a process of its own
    server: EmbeddedServer | None = None
    started_at: float = 0.0
    # the size of its log at that time
    logged: int = 0
    # unrequested exits in a row, each soon after a start
    failures: int = 0
    # how it last ended, and why we have killed it
    reason: str = ""
    killed: str = ""
    # monotonic time of its next start; None while it runs
    restart_at: float | None = None
    # checks in a row at which a signal had stopped it, and without a sign of life (None: it has given none yet)
    stopped: int = 0
    silent: int | None = None

    @property
    def pid(self) -> int | None:
        """Its process, while it runs."""
        if self.server is not None:
            return self.server.pid
        return self.process.pid if self.process is not None and self.process.poll() is None else None


class Supervisor:
    """The children of one `backscroll up`, and its servers; `say` gets a sentence for what happens to one.

    Called from the main thread: for the kernel the parent of a child is the thread that started it. With `forks`,
    children that are Python modules are forks.
    """

    def __init__(
        self,
        environment: Mapping[str, str],
        log_dir: Path,
        say: Callable[[str], None],
        forks: Forks | None = None,
    ) -> None:
        self.children: list[Child] = []
        self._forks = forks
        self._environment = environment
        self._log_dir = log_dir
        self._say = say
        self._checked = time.monotonic()

    def start(self, name: str, command: Sequence[str], environment: Mapping[str, str] | None = None) -> Child:
        """Start a child, whose output goes to `NAME.log`."""
        log_path = self._log_dir / f"{name}.log"
        child = Child(name=name, command=command, log_path=log_path, environment=environment or {})
        self.children.append(child)
        self._spawn(child)
        return child

    def watch(self, server: EmbeddedServer) -> None:
        """Restart a running server, too; `stop` leaves it running."""
        now = time.monotonic()
        self.children.append(Child(name=server.name, log_path=server.log_path, server=server, started_at=now))

    def tend(self) -> None:
        """Restart children that ended or hang, after growing delays, and rotate logs. Call it often."""
        now = time.monotonic()
        if now - self._checked > CHECK_SECONDS:
            self._checked = now
            self._kill_hung()
        for child in self.children:
            self._rotate(child.log_path)
            if child.restart_at is not None:
                if now >= child.restart_at:
                    self._spawn(child)
            elif child.pid is None:
                self._note_end(child, now)
            elif child.failures and now - child.started_at > STEADY_SECONDS:
                if child.failures >= FAILING:
                    self._say(f"{child.name} runs again")
                child.failures = 0

    def failing(self) -> dict[str, str]:
        """Say of each child that ends again and again, by its name, why it does."""
        return {
            child.name: f"{child.name} {child.reason}, again and again. Its log: {child.log_path}"
            for child in self.children
            if child.failures >= FAILING
        }

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
            _kill_session(process.pid)
            process.wait()

    def _note_end(self, child: Child, now: float) -> None:
        lasted = now - child.started_at
        child.failures += 1
        before, child.reason = child.reason, child.killed or _how(child)
        delay = min(FIRST_RESTART_SECONDS * 2 ** min(child.failures - 1, MAX_DOUBLINGS), LAST_RESTART_SECONDS)
        child.restart_at = now + delay
        if child.failures in (1, FAILING) or (child.failures < FAILING and child.reason != before):
            often = f", {FAILING} times in a row: it is not said again" if child.failures == FAILING else ""
            self._say(
                f"{child.name} {child.reason} (after {lasted:.0f} s{often}); restarting it in {delay:.0f} s. "
                f"Its log: {child.log_path}"
            )

    def _kill_hung(self) -> None:
        by_parent = children()
        for child in self.children:
            pid = child.pid
            if pid is None:
                continue
            child.stopped = child.stopped + 1 if any(map(is_stopped, (pid, *by_parent[pid]))) else 0
            if child.lives():
                child.silent = 0
            elif child.silent is not None:
                child.silent += 1
            if child.stopped >= STOPPED_CHECKS:
                child.killed = "was stopped by a signal, and killed"
            elif (child.silent or 0) >= SILENT_CHECKS:
                child.killed = f"hung for {SILENT_CHECKS * CHECK_SECONDS:.0f} s, and was killed"
            else:
                continue
            if child.server is None:
                _kill_session(pid)
                continue
            try:
                child.server.kill()
            except BackscrollError as error:
                self._say(str(error))

    def _rotate(self, path: Path) -> None:
        """Keep a log within its size."""
        try:
            rotate(path)
        except OSError as error:
            self._say(f"{path} was truncated, and what it held is lost: {error}")

    def _spawn(self, child: Child) -> None:
        child.started_at, child.restart_at = time.monotonic(), None
        child.killed, child.stopped, child.silent = "", 0, None
        # forget what the process before it left
        child.lives()
        if child.server is not None:
            try:
                child.server.start()
            except BackscrollError as error:
                child.killed = f"did not start: {error}"
            return
        log = os.open(child.log_path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        child.logged = os.fstat(log).st_size
        environment = {**self._environment, **child.environment}
        try:
            if self._forks is not None and is_module(child.command):
                child.process = self._forks.start(child.name, child.command, environment, str(child.log_path))
                return
            child.process = subprocess.Popen(
                child.command,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                # Ctrl-C in the terminal reaches only us, who stop them in order
                start_new_session=True,
                preexec_fn=die_with_parent(signal.SIGKILL),
            )
        except OSError as error:
            # such as no memory: it is tried again
            child.process, child.killed = None, f"did not start: {error}"
        finally:
            os.close(log)


def _kill_session(pid: int) -> None:
    """Kill a child's whole session: pool processes may outlive it."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)


def _how(child: Child) -> str:
    """Say how a child ended, and by its last line that is not mere information why, if it did so by itself."""
    code = child.process.returncode if child.process is not None else None
    if code is None:
        return "has ended"
    if code < 0:
        return f"ended by {signal.Signals(-code).name}"
    log = child.log_path.read_bytes() if child.log_path.exists() else b""
    lines = log[child.logged :].decode(errors="replace").splitlines()
    last = next((line for line in reversed(lines) if line.strip() and '"level": "info"' not in line), "")
    with contextlib.suppress(ValueError, KeyError, TypeError):
        last = json.loads(last)["event"]
    return f"ended with code {code}" + (f": {last.strip()[:300]}" if last else "")
