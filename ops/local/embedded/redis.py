"""A Redis from an installed wheel, or a newer one of the machine, with its data in a folder.

It listens on the loopback address and needs the random password in `redis-password` (0600).
"""

import secrets
import signal
from pathlib import Path

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from ops.local.embedded.account import account_for, give_away
from ops.local.embedded.binaries import reachable_redis, redis_server
from ops.local.embedded.folder import make_folder, write_private
from ops.local.embedded.ports import LOOPBACK, free_port, is_free, require_free
from ops.local.embedded.server import EmbeddedServer, Launch, ServerState
from schemas.errors import QueueUnavailable

CONFIG = """\
bind {host}
port {port}
protected-mode yes
requirepass "{password}"
dir .
# a crash of the process loses nothing, one of the machine a second; `always` would delay every message
appendonly yes
appendfsync everysec
# the append-only file is enough; a snapshot costs memory while it is written
save ""
# a queue must refuse rather than forget
maxmemory-policy noeviction
maxmemory {maxmemory}
daemonize no
logfile ""
loglevel notice
"""


class EmbeddedRedis(EmbeddedServer):
    """A Redis server with its data in `data_dir`, by default on a free port and without a limit (`"256mb"`)."""

    name = "redis"
    start_seconds = 60
    stop_seconds = 10
    stop_signals = (signal.SIGTERM,)

    def __init__(self, data_dir: Path, *, port: int | None = None, maxmemory: str | None = None) -> None:
        super().__init__(data_dir, port)
        self._maxmemory = maxmemory or "0"
        self._password_path = self.data_dir / "redis-password"

    @property
    def url(self) -> str:
        """The URL of the server's database 0. Raises `QueueUnavailable` if it was never started."""
        state = self._state()
        if state is None:
            raise QueueUnavailable(
                f"The embedded Redis of {self.data_dir} was never started: `backscroll up` starts it."
            )
        return f"redis://:{self._password()}@{LOOPBACK}:{state.port}/0"

    def _prepare(self) -> Launch:
        data = self.data_dir / "redis"
        account = account_for(self.data_dir, data)
        program = reachable_redis(redis_server(), account)
        make_folder(data)
        if account:
            give_away(data, account)
        if not self._password_path.exists():
            write_private(self._password_path, secrets.token_urlsafe(24))
        port = self._choose_port()
        config = CONFIG.format(host=LOOPBACK, port=port, password=self._password(), maxmemory=self._maxmemory)
        # through a pipe, so that the password is in no argument and no second file
        return Launch([program, "-"], data, account, ServerState(port), config.encode())

    def _answers(self, state: ServerState) -> bool:
        client = redis.Redis(
            host=LOOPBACK,
            port=state.port,
            password=self._password(),
            socket_timeout=5,
            socket_connect_timeout=5,
            retry=Retry(NoBackoff(), 0),  # the caller polls
        )
        try:
            return bool(client.ping())
        except (redis.ConnectionError, redis.TimeoutError):
            # still starting, or reading its data
            return False
        finally:
            client.close()

    def _choose_port(self) -> int:
        if self._port:
            require_free(self._port, "the embedded Redis")
            return self._port
        last = self._state()
        return last.port if last and is_free(last.port) else free_port()

    def _password(self) -> str:
        return self._password_path.read_text(encoding="utf-8")
