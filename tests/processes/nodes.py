"""Processes of a deployment that stories start, stop, kill and start again."""

import contextlib
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from ops.local.embedded.binaries import redis_server
from ops.local.embedded.ports import LOOPBACK, free_port
from ops.local.embedded.process import die_with_parent
from tests.ops.running import unwatched
from tests.waiting import until

START_SECONDS = 60
END_SECONDS = 30


class Process:
    """A process that writes its log into a file; it ends with us, however we end."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        folder: Path,
        environment: Mapping[str, str],
        prompt: str = "",
    ) -> None:
        self.name = name
        self.log = folder / f"{name}.log"
        # it is ready when it has said this
        self._prompt = prompt
        self._command = list(command)
        self._folder = folder
        self._environment = unwatched(environment)
        self._begins_at = 0
        self._child: subprocess.Popen[bytes]
        self._start()

    @property
    def runs(self) -> bool:
        return self._child.poll() is None

    @property
    def pid(self) -> int:
        return self._child.pid

    @property
    def exit_code(self) -> int | None:
        """None while it runs."""
        return self._child.poll()

    def logs(self) -> str:
        """What it has written since it was started last; all of it is in the file `log`."""
        with self.log.open("rb") as file:
            file.seek(self._begins_at)
            return file.read().decode(errors="replace")

    def ready(self) -> None:
        """Wait until it is."""
        until(lambda: self._prompt in self.logs() or not self.runs, f"{self.name} is ready", START_SECONDS)
        assert self.runs, self.logs()[-3000:]

    def kill(self, name: str = "SIGKILL") -> None:
        """Send a signal; SIGKILL takes all that it has started along, and is waited for."""
        number = signal.Signals[name]
        if number == signal.SIGKILL:
            os.killpg(self._child.pid, number)
            self._child.wait(END_SECONDS)
        else:
            os.kill(self._child.pid, number)

    def end(self) -> None:
        """TERM, and KILL to what is left of it."""
        if self.runs:
            self.kill("SIGTERM")
        try:
            self._child.wait(END_SECONDS)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._child.pid, signal.SIGKILL)
            self._child.wait(END_SECONDS)

    def restart(self) -> None:
        """Start it again, after a TERM if it runs."""
        if self.runs:
            self.kill("SIGTERM")
            self._child.wait(END_SECONDS)
        self._start()

    def _start(self) -> None:
        with self.log.open("ab") as out:
            self._begins_at = out.tell()
            self._child = subprocess.Popen(
                self._command,
                cwd=self._folder,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
                preexec_fn=die_with_parent(signal.SIGKILL),
            )


class RedisProcess(Process):
    """A redis-server on a free port, which has what it acknowledged after it was killed, too."""

    def __init__(self, folder: Path) -> None:
        port = free_port()
        self.url = f"redis://{LOOPBACK}:{port}/0"
        listens = ("--port", str(port), "--bind", LOOPBACK, "--protected-mode", "no")
        keeps = (
            "--dir",
            str(folder),
            "--save",
            "",
            "--appendonly",
            "yes",
            "--maxmemory-policy",
            "noeviction",
        )
        command = [str(redis_server()), *listens, *keeps]
        super().__init__("redis", command, folder, {"PATH": os.defpath}, "Ready to accept connections")

    def _start(self) -> None:
        super()._start()
        self.ready()
