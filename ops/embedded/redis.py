"""Runs a Redis out of an installed wheel, or a newer one of the machine, with its data in a folder.

It listens on the loopback address, and nobody gets in without the random password in `redis-password` (0600): who
may read that file, its owner and root. The data folder also holds `redis/` (the append-only file), `redis.log`,
`redis.json` (the port and the process) and `redis.lock`. The port stays the same from start to start when it can.
"""

import os
import secrets
import signal
from dataclasses import replace
from pathlib import Path
from typing import Self

import redis

from ops.embedded.account import account_for, give_away
from ops.embedded.binaries import reachable_redis, redis_server
from ops.embedded.folder import make_folder, write_private
from ops.embedded.ports import LOOPBACK, free_port, is_free, require_free
from ops.embedded.process import Server, ServerFailed, State
from schemas.errors import QueueUnavailable

START_SECONDS = 60.0
STOP_SECONDS = 10.0

CONFIG = """\
bind {host}
port {port}
protected-mode yes
requirepass "{password}"
dir .
# survives a crash of the process without loss, of the machine with a second's; more would slow every message down
appendonly yes
appendfsync everysec
# the append-only file is enough, a second copy only costs memory when it is written
save ""
# a queue must refuse rather than forget
maxmemory-policy noeviction
maxmemory {maxmemory}
daemonize no
logfile ""
loglevel notice
"""


class EmbeddedRedis:
    """A Redis server with its data in `data_dir`.

    `port`: on the loopback address, by default a free one, kept from start to start. `maxmemory`: as Redis writes
    it (`"256mb"`), by default without a limit.
    """

    def __init__(self, data_dir: Path, *, port: int | None = None, maxmemory: str | None = None) -> None:
        self.data_dir = data_dir.absolute()
        self._port = port
        self._maxmemory = maxmemory or "0"
        self._server = Server("redis", self.data_dir)
        self._password_path = self.data_dir / "redis-password"

    def start(self) -> None:
        """Start the server with the data that it had.

        Where it runs already, whoever started it, it is used as it is, and ends with the one who started it.
        Raises `DataFolderError`, `ProgramMissing`, `PortTaken` or `ServerFailed`.
        """
        make_folder(self.data_dir)
        lock = self._server.lock(self._answers, START_SECONDS)
        if lock is None:
            self._require_same_port()
            return
        try:
            self._start(lock)
        finally:
            os.close(lock)

    def stop(self) -> None:
        """End the server, if this object started it, with everything written out; takes at most 10 s."""
        self._server.stop([signal.SIGTERM], STOP_SECONDS)

    def kill(self) -> None:
        """End the server at once with SIGKILL, whoever started it."""
        self._server.kill()

    def is_running(self) -> bool:
        """Whether the server runs, whoever started it."""
        return self._server.is_running()

    @property
    def is_ours(self) -> bool:
        """Whether this object started the server that runs, and so ends it with `stop`."""
        return self._server.is_ours

    @property
    def pid(self) -> int | None:
        """The process number of the server, or None when it does not run."""
        return self._server.pid

    @property
    def log_path(self) -> Path:
        """The server's log."""
        return self._server.log_path

    @property
    def url(self) -> str:
        """The server's URL (database 0). Raises `QueueUnavailable` when it was never started."""
        state = self._server.state()
        if state is None:
            raise QueueUnavailable(
                f"The embedded Redis of {self.data_dir} was never started: `backscroll up` starts it."
            )
        return f"redis://:{self._password()}@{LOOPBACK}:{state.port}/0"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _start(self, lock: int) -> None:
        data = self.data_dir / "redis"
        account = account_for(self.data_dir, data)
        program = reachable_redis(redis_server(), account)
        if not self._password_path.exists():
            write_private(self._password_path, secrets.token_urlsafe(24))
        if not data.exists():
            make_folder(data)
        if account:
            give_away(data, account)
        starting = State(0, os.getpid(), self._choose_port())
        self._server.publish(starting)
        config = CONFIG.format(
            host=LOOPBACK, port=starting.port, password=self._password(), maxmemory=self._maxmemory
        )
        pid = self._server.spawn(
            [program, "-"],
            lock=lock,
            directory=data,
            account=account,
            death_signal=signal.SIGTERM,
            config=config.encode(),
        )
        try:
            self._server.wait_until(lambda: self._answers(starting), START_SECONDS)
            self._server.publish(replace(starting, pid=pid))
        except BaseException:
            self.stop()
            raise

    def _choose_port(self) -> int:
        if self._port:
            require_free(self._port, "the embedded Redis")
            return self._port
        last = self._server.state()
        return last.port if last and is_free(last.port) else free_port()

    def _password(self) -> str:
        return self._password_path.read_text(encoding="utf-8")

    def _answers(self, state: State) -> bool:
        client = redis.Redis(
            host=LOOPBACK,
            port=state.port,
            password=self._password(),
            socket_timeout=5,
            socket_connect_timeout=5,
        )
        try:
            return bool(client.ping())
        except (redis.ConnectionError, redis.TimeoutError):
            # not there yet, or reading its data
            return False
        finally:
            client.close()

    def _require_same_port(self) -> None:
        state = self._server.state()
        if self._port and state and state.port != self._port:
            raise ServerFailed(
                f"The embedded Redis of {self.data_dir} runs already (process {state.pid}) on port {state.port}, not "
                f"on {self._port}. Stop it first, or leave the port out."
            )
