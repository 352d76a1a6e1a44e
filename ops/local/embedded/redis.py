"""A Redis, or Valkey, from an installed wheel, or a newer one of the machine, with its data in a folder.

It listens on the loopback address and needs the random password in `redis-password` (0600).
"""

import secrets
import signal
from pathlib import Path

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from ops.local.embedded.binaries import reachable_redis, redis_server
from ops.local.embedded.folder import account_for, give_away, make_folder, write_private
from ops.local.embedded.server import LOOPBACK, EmbeddedServer, Launch, ServerState, free_port, is_free_port
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
    """A Redis server with its data in `data_dir`, by default without a limit (`"256mb"`)."""

    name = "redis"
    start_seconds = 60
    stop_seconds = 10
    stop_signals = (signal.SIGTERM,)

    def __init__(self, data_dir: Path, *, maxmemory: str | None = None) -> None:
        super().__init__(data_dir, None)
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
        # one before 7 would find nothing in that folder, and start without a word
        oldest = 7 if (data / "appendonlydir").exists() else 0
        program = reachable_redis(redis_server(oldest), account)
        make_folder(data)
        if account:
            give_away(data, account)
        if not self._password_path.exists():
            write_private(self._password_path, secrets.token_urlsafe(24))
        last = self._state()
        port = last.port if last and is_free_port(last.port) else free_port()
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

    def _password(self) -> str:
        return self._password_path.read_text(encoding="utf-8")
