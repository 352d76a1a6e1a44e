"""The faults of a plan, made on a cast; each ends with everything started again and reachable."""

import contextlib
import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
from redis.exceptions import RedisError

from ops.dev.chaos import namespaces, providers, skewed
from ops.dev.chaos.cast import Cast
from ops.dev.chaos.plan import LONGEST_SECONDS, SHORTEST_SECONDS, Fault
from ops.dev.observe import count, wait
from ops.local.embedded.roles import DATABASE

# In which a worker gets into the middle of its work, or is killed wherever it is.
CATCH_SECONDS = 3.0
# While another holds a lock on the table, the worker waits in the middle of a transaction.
IN_THE_WAY = {
    "accept": "messages",
    "ingest": "arrivals",
    "backfill": "conversation_sessions",
    "sweep": "conversation_sessions",
}
CLAIMED = "SELECT count(*) FROM jobs WHERE kind = %s AND claimed IS NOT NULL"
WAITING = "SELECT count(*) FROM pg_locks WHERE relation = CAST(%s AS regclass) AND NOT granted"
# The most that a clock is wrong, either way.
CLOCK_SECONDS = 1800.0
CLOCKED = ("accept", "ingest", "embed", "summarize", "backfill", "sweep", "beat")
FREEZABLE = ("accept", "ingest", "embed", "summarize", "backfill", "sweep", "api")


class Faults:
    """Maker of faults; `midway` counts the processes that were caught in the middle of their work."""

    def __init__(self, cast: Cast) -> None:
        self._cast = cast
        self.midway = 0
        self._makers: dict[str, Callable[[Fault], None]] = {
            **{f"kill-{name}": self._kill_worker for name in ("accept", "ingest", "backfill", "sweep")},
            **{f"kill-{name}": self._kill_calling for name in ("embed", "summarize")},
            "freeze-worker": self._freeze_worker,
            "kill-api": self._kill_member,
            "kill-beat": self._kill_member,
            "redis-restart": self._restart_redis,
            "redis-empty": self._restart_redis,
            "redis-full": self._fill_redis,
            "redis-flush": self._flush_redis,
            "redis-drop": self._drop_clients,
            "postgres-restart": self._restart_postgres,
            "postgres-freeze": self._freeze_postgres,
            "postgres-refuse": self._refuse,
            "disk-full": self._fill_disk,
            "clock-shift": self._shift_clock,
            **{f"provider-{mood}": self._trouble_provider for mood in ("hang", "fail", "rubbish", "late")},
        }

    def make(self, fault: Fault) -> None:
        """Make a fault; to be called by the main thread. Raises what starting something again raises."""
        self._makers[fault.kind](fault)

    def _kill_worker(self, fault: Fault) -> None:
        """SIGKILL a worker while a lock holds it in the middle of its transaction."""
        name = fault.kind.removeprefix("kill-")
        table = IN_THE_WAY[name]
        # sessions are locked against readers too: closing them begins with a look
        mode = "ACCESS EXCLUSIVE" if table == "conversation_sessions" else "EXCLUSIVE"
        with self._cast.connect() as holder, self._cast.connect() as watcher, holder.transaction():
            holder.execute(f"LOCK TABLE {table} IN {mode} MODE")
            self.midway += _soon(lambda: count(watcher, WAITING, [table]) > 0)
            self._cast.members[name].kill()
        self._cast.members[name].start()

    def _kill_calling(self, fault: Fault) -> None:
        """SIGKILL a worker while it waits for a model, with rows claimed."""
        kind = fault.kind.removeprefix("kill-")
        member = self._cast.members[kind]
        with self._mood(f"{providers.HANG} {kind}"), self._cast.connect() as connection:
            self.midway += _soon(lambda: count(connection, CLAIMED, [kind]) > 0)
            member.kill()
        member.start()

    def _freeze_worker(self, fault: Fault) -> None:
        """SIGSTOP a worker for longer than a lease, so that others take over what it holds; then SIGKILL."""
        member = self._cast.members[FREEZABLE[int(fault.choice * len(FREEZABLE))]]
        member.signal(signal.SIGSTOP)
        time.sleep(self._cast.settings.lease_seconds + fault.seconds)
        member.kill()
        member.start()

    def _kill_member(self, fault: Fault) -> None:
        member = self._cast.members["api" if fault.kind == "kill-api" else "beat"]
        member.kill()
        time.sleep(fault.seconds / 2)
        member.start()

    def _shift_clock(self, fault: Fault) -> None:
        """SIGKILL a process, and start it with a clock that is wrong by minutes, ahead or behind."""
        member = self._cast.members[CLOCKED[int(fault.choice * len(CLOCKED))]]
        part = (fault.seconds - SHORTEST_SECONDS) / (LONGEST_SECONDS - SHORTEST_SECONDS)
        member.kill()
        member.environment[skewed.SHIFT] = f"{(2 * part - 1) * CLOCK_SECONDS:.0f}"
        member.start()

    def _fill_disk(self, fault: Fault) -> None:
        """Fill the data folder for a while, of which Postgres may die."""
        with namespaces.filled(self._cast.folder):
            time.sleep(fault.seconds)
        for server in (self._cast.postgres, self._cast.redis):
            if not server.is_running():
                server.start()

    def _restart_redis(self, fault: Fault) -> None:
        """SIGKILL Redis, and start it after a while with its data or with none."""
        self._cast.redis.kill()
        time.sleep(fault.seconds)
        if fault.kind == "redis-empty":
            shutil.rmtree(self._cast.redis.data_dir / "redis")
        self._cast.redis.start()

    def _fill_redis(self, fault: Fault) -> None:
        """Let Redis refuse every write for a while, as with `maxmemory` reached."""
        with self._cast.redis_client() as client:
            client.config_set("maxmemory", 1)
            try:
                time.sleep(fault.seconds)
            finally:
                client.config_set("maxmemory", 0)

    def _flush_redis(self, _fault: Fault) -> None:
        with self._cast.redis_client() as client:
            client.flushall()

    def _drop_clients(self, _fault: Fault) -> None:
        """Cut all connections of all clients."""
        with self._cast.redis_client() as client:
            for kind in ("normal", "pubsub"):
                # ours may be among them
                with contextlib.suppress(RedisError):
                    client.execute_command("CLIENT", "KILL", "TYPE", kind)

    def _restart_postgres(self, fault: Fault) -> None:
        """SIGKILL the server and its children: it recovers from its log, as after a crash."""
        self._cast.postgres.kill()
        time.sleep(fault.seconds / 2)
        self._cast.postgres.start()

    def _freeze_postgres(self, fault: Fault) -> None:
        """SIGSTOP the server and its children for a while."""
        pid = self._cast.postgres.pid
        if pid is None:
            return
        stopped = [pid]
        os.kill(pid, signal.SIGSTOP)
        try:
            for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
                # a child may end while we look
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(child), signal.SIGSTOP)
                    stopped.append(int(child))
            time.sleep(fault.seconds)
        finally:
            for process in reversed(stopped):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process, signal.SIGCONT)

    def _refuse(self, fault: Fault) -> None:
        """Refuse connections to the database for a while, and end those that are open."""
        with psycopg.connect(self._cast.postgres.superuser_dsn(), autocommit=True) as connection:
            connection.execute(f"ALTER DATABASE {DATABASE} WITH ALLOW_CONNECTIONS false")
            try:
                connection.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [DATABASE]
                )
                time.sleep(fault.seconds)
            finally:
                connection.execute(f"ALTER DATABASE {DATABASE} WITH ALLOW_CONNECTIONS true")

    def _trouble_provider(self, fault: Fault) -> None:
        """Put both models in a mood for a while."""
        with self._mood(fault.kind.removeprefix("provider-")):
            time.sleep(1 + fault.seconds)

    @contextlib.contextmanager
    def _mood(self, mood: str) -> Iterator[None]:
        self._cast.set_mood(mood)
        try:
            yield
        finally:
            self._cast.set_mood(providers.WELL)


def _soon(condition: Callable[[], bool]) -> bool:
    """Wait until it is so, some seconds at most; whether it is."""
    return wait(condition, CATCH_SECONDS, pause=0.02) is not None
