"""One process of a deployment: started, ended, and asked whether it is ready."""

import contextlib
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from ops.local.embedded.process import die_with_parent

# What Celery's workers, its clock, uvicorn and Prometheus log when they have started.
READY_WORDS = (b" ready.", b"beat: Starting...", b"startup complete", b"ready to receive")


class Process:
    """One process with its children, in a session of its own; to be started by the main thread."""

    def __init__(
        self, name: str, command: Sequence[str], folder: Path, environment: Mapping[str, str]
    ) -> None:
        self.name = name
        self.log = folder / f"{name}.log"
        # what the next start is given
        self.environment = dict(environment)
        self._command = list(command)
        self._folder = folder
        self._begins_at = 0
        self._child: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it; what it writes goes to its log."""
        die = die_with_parent(signal.SIGKILL)

        def begin() -> None:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
            die()

        # while a process is made, Python would print the exception of a Ctrl-C and go on
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            with self.log.open("ab") as out:
                self._begins_at = out.tell()
                self._child = subprocess.Popen(
                    self._command,
                    cwd=self._folder,
                    env=self.environment,
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=out,
                    start_new_session=True,
                    preexec_fn=begin,
                )
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def is_running(self) -> bool:
        """Return whether its first process lives."""
        return self._child is not None and self._child.poll() is None

    def is_ready(self) -> bool:
        """Return whether it has logged since its last start that it takes up its work."""
        log = self.log.read_bytes()[self._begins_at :]
        return any(word in log for word in READY_WORDS)

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to it and all its children."""
        if self._child is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._child.pid, number)

    def kill(self) -> None:
        """SIGKILL it and all its children."""
        self.signal(signal.SIGKILL)
        if self._child is not None:
            self._child.wait()

    def restart(self) -> None:
        """SIGKILL it and start it again."""
        self.kill()
        self.start()
