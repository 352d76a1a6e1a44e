"""The nodes of pytest-celery as plain processes: what it starts as containers elsewhere runs without Docker here.

`Process` offers what pytest-celery asks of a container of the Docker client, so that its own classes, with
their ways to wait, kill, restart and read logs, work on it unchanged.
"""

import contextlib
import os
import signal
import subprocess
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pytest_celery import CeleryWorkerContainer, RedisContainer

from ops.local.embedded.binaries import redis_server
from ops.local.embedded.ports import LOOPBACK, free_port
from ops.local.embedded.process import die_with_parent
from tests.ops.running import until, unwatched

START_SECONDS = 60
END_SECONDS = 30


class Process:
    """A process that looks like a container; it ends with us, however we end."""

    attrs: Mapping[str, Any] = {
        "Config": {"Hostname": LOOPBACK, "Env": []},
        "HostConfig": {"PortBindings": {}},
        "NetworkSettings": {"Networks": {}, "Ports": {}},
    }

    def __init__(
        self, name: str, command: Sequence[str], folder: Path, environment: Mapping[str, str]
    ) -> None:
        self.id = uuid.uuid4().hex
        self.name = name
        self.command = list(command)
        self.log = folder / f"{name}.log"
        self._folder = folder
        self._environment = unwatched(environment)
        self._begins_at = 0
        self._child: subprocess.Popen[bytes]
        self._start()

    @property
    def status(self) -> str:
        return "running" if self._child.poll() is None else "exited"

    @property
    def pid(self) -> int:
        return self._child.pid

    @property
    def exit_code(self) -> int | None:
        """None while it runs."""
        return self._child.poll()

    def reload(self) -> None:
        """Nothing to do: `status` is always as it is now."""

    def logs(self) -> bytes:
        """What it has written since it was started last; all of it is in the file `log`."""
        with self.log.open("rb") as file:
            file.seek(self._begins_at)
            return file.read()

    def kill(self, signal: str | int | None = None) -> None:
        """Send a signal; SIGKILL takes its whole group, as it takes all of a container, and is waited for."""
        number = _number(signal)
        if number == _number("SIGKILL"):
            os.killpg(self._child.pid, number)
            self._child.wait(END_SECONDS)
        else:
            os.kill(self._child.pid, number)

    def end(self) -> None:
        """TERM, and KILL to what is left of it."""
        if self._child.poll() is None:
            self.kill("SIGTERM")
        try:
            self._child.wait(END_SECONDS)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._child.pid, _number("SIGKILL"))
            self._child.wait()

    def restart(self, timeout: float = END_SECONDS) -> None:
        if self._child.poll() is None:
            self.kill("SIGTERM")
            self._child.wait(timeout)
        self._start()

    def _start(self) -> None:
        with self.log.open("ab") as out:
            self._begins_at = out.tell()
            self._child = subprocess.Popen(
                self.command,
                cwd=self._folder,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
                preexec_fn=die_with_parent(signal.SIGKILL),
            )


class _AsProcess:
    """Without the ports and networks of Docker: what is left of being ready is to have said so."""

    def ready(self) -> bool:
        def said_or_ended() -> bool:
            return self.ready_prompt in self.logs() or self.status == "exited"

        until(said_or_ended, f"{self.name} is ready", START_SECONDS)
        assert self.status == "running", self.logs()[-3000:]
        return True

    def teardown(self) -> None:
        self._container.end()


class RedisProcess(_AsProcess, RedisContainer):
    """A redis-server."""

    @classmethod
    def start(cls, folder: Path) -> "RedisProcess":
        """One on a free port that keeps its data in the folder."""
        port = free_port()
        arguments = cls.command("--port", str(port), "--bind", LOOPBACK, "--dir", str(folder))
        # what it has acknowledged must be there after it was killed
        arguments[arguments.index("--appendonly") + 1] = "yes"
        node = cls(Process("redis", [str(redis_server()), *arguments[1:]], folder, {"PATH": os.defpath}))
        node.chosen_port = port
        node.ready()
        return node

    @property
    def port(self) -> int:
        return self.chosen_port

    @property
    def hostname(self) -> str:
        return LOOPBACK

    @property
    def url(self) -> str:
        return f"{self.prefix()}{LOOPBACK}:{self.port}/{self.vhost}"

    @property
    def host_url(self) -> str:
        return self.url


class WorkerProcess(_AsProcess, CeleryWorkerContainer):
    """A Celery worker."""


class BeatProcess(_AsProcess, CeleryWorkerContainer):
    """Celery's clock."""

    @property
    def ready_prompt(self) -> str:
        return "beat: Starting..."


def _number(name: str | int | None) -> int:
    if name is None:
        return int(signal.SIGKILL)
    return int(getattr(signal, name)) if isinstance(name, str) else int(name)
