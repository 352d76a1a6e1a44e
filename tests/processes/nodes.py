"""Nodes of pytest-celery as plain processes: its own are containers, and a machine that tests needs no Docker.

What of pytest-celery asks Docker for more than starting, signals and logs is not here: images, networks, volumes and
`get_running_processes_info`, which runs a command inside of a container.
"""

import atexit
import contextlib
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from pytest_celery import CeleryTestWorker, CeleryWorkerContainer, RedisContainer, RedisTestBroker
from pytest_celery.api.base import CeleryTestNode
from pytest_celery.api.container import CeleryTestContainer

from ops.local.embedded.binaries import redis_server
from ops.local.embedded.server import LOOPBACK, die_with_parent, free_port
from ops.local.forks import SUPPORTED, Forks, is_module
from ops.local.processes import bare_environment
from tests.ops.running import unwatched
from tests.waiting import until

START_SECONDS = 240
END_SECONDS = 30


@cache
def _forks() -> Forks:
    """As in `backscroll up`: workers that import everything by themselves take most of the time of these stories."""
    forks = Forks(unwatched(bare_environment()))
    atexit.register(forks.close)
    return forks


class _Child:
    """What pytest-celery asks of a container, of a process; it ends with us, however we end."""

    def __init__(
        self, name: str, command: Sequence[str], folder: Path, environment: Mapping[str, str]
    ) -> None:
        self.id = self.name = name
        self.attrs: dict[str, Any] = {
            "Config": {"Hostname": LOOPBACK, "Env": [f"{key}={value}" for key, value in environment.items()]},
            "NetworkSettings": {"Networks": {}, "Ports": {}},
        }
        self.log = folder / f"{name}.log"
        self._command, self._environment = list(command), unwatched(environment)
        self._arguments = {"args": self._command, "cwd": folder, "env": self._environment}
        self.start()

    def start(self) -> None:
        with self.log.open("ab") as out:
            self._begins_at = out.tell()
            if SUPPORTED and is_module(self._command):
                log = str(self.log)
                self.process: Any = _forks().start(self.name, self._command, self._environment, log)
                return
            self.process = subprocess.Popen(
                **self._arguments,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
                preexec_fn=die_with_parent(signal.SIGKILL),
            )

    @property
    def status(self) -> str:
        return "running" if self.process.poll() is None else "exited"

    def reload(self) -> None:
        """Do what a container's does: nothing that a process does not know of itself."""

    def logs(self) -> bytes:
        with self.log.open("rb") as file:
            file.seek(self._begins_at)
            return file.read()

    def kill(self, name: str | None = None) -> None:
        number = signal.Signals[name or "SIGKILL"]
        if number == signal.SIGKILL:
            # as of a container, all that it has started goes along
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, number)
            self.process.wait(END_SECONDS)
        else:
            os.kill(self.process.pid, number)

    def restart(self, timeout: float) -> None:
        if self.status == "running":
            self.kill("SIGTERM")
            self.process.wait(timeout)
        self.start()


class _Ended:
    """How a node tells that its process has ended, and ends it."""

    container: CeleryTestContainer

    @property
    def _child(self) -> _Child:
        child: _Child = self.container._container
        return child

    @property
    def log(self) -> Path:
        """The file with all that it has written; `logs` is since it was started last."""
        return self._child.log

    @property
    def runs(self) -> bool:
        return self._child.status == "running"

    @property
    def pid(self) -> int:
        return self._child.process.pid

    @property
    def exit_code(self) -> int | None:
        """None while it runs."""
        return self._child.process.poll()

    def end(self) -> None:
        """TERM, and KILL to what is left of it."""
        if self.runs:
            self._child.kill("SIGTERM")
        try:
            self._child.process.wait(END_SECONDS)
        finally:
            self._child.kill()


class _Prompt(CeleryTestContainer):
    """How long a node is waited for: the machine may be busy, and one that has ended is not waited for."""

    def _wait_ready(self, timeout: int = START_SECONDS) -> bool:
        prompt = self.ready_prompt or ""
        until(lambda: prompt in self.logs() or self.status == "exited", f"{self.name} is ready", timeout)
        return bool(self.status == "running")


class Process(_Ended, CeleryTestNode):
    """A process that writes its log into a file."""

    def __init__(self, *process: Any) -> None:
        super().__init__(_Prompt(_Child(*process)))


class _Worker(_Prompt, CeleryWorkerContainer):
    pass


class WorkerProcess(_Ended, CeleryTestWorker):
    """A worker with the command that `backscroll` gives it."""

    def __init__(self, *process: Any) -> None:
        super().__init__(_Worker(_Child(*process)), app=None)


class _Redis(_Prompt, RedisContainer):
    @property
    def port(self) -> int:
        return int(self.env["PORT"])

    @property
    def host_url(self) -> str:
        return f"{self.prefix()}{self.hostname}:{self.port}/{self.vhost}"

    url = host_url


class RedisProcess(_Ended, RedisTestBroker):
    """A redis-server on a free port, which has what it acknowledged after it was killed, too."""

    def __init__(self, folder: Path) -> None:
        port = str(free_port())
        keeps = ("--port", port, "--bind", LOOPBACK, "--dir", str(folder), "--appendonly", "yes")
        command = [str(redis_server()), *RedisContainer.command(*keeps)[1:]]
        super().__init__(_Redis(_Child("redis", command, folder, {"PATH": os.defpath, "PORT": port})))
        self.ready()

    @property
    def url(self) -> str:
        return str(self.config()["url"])
