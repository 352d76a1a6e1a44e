"""The faults of a chaos run: drawn from a seed, and made on a deployment, its servers and its answers."""

import contextlib
import http.client
import os
import random
import shutil
import signal
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import psycopg
from redis.exceptions import RedisError

from ops.dev import deployment, providers, skewed
from ops.dev.deployment import OwnDeployment
from ops.dev.figures import count_rows, wait
from ops.local.embedded.roles import DATABASE
from ops.local.embedded.server import children

# In which a worker gets into the middle of its work, or is killed wherever it is.
CATCH_SECONDS = 3.0
# While another holds a lock on the table, the worker waits in the middle of a transaction.
SESSIONS = "conversation_sessions"
IN_THE_WAY = {"accept": "messages", "ingest": "arrivals", "backfill": SESSIONS, "sweep": SESSIONS}
CLAIMED = "SELECT count(*) FROM jobs WHERE kind = %s AND claimed IS NOT NULL"
WAITING = "SELECT count(*) FROM pg_locks WHERE relation = CAST(%s AS regclass) AND NOT granted"
TERMINATE = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s"
WORKERS = ("accept", "ingest", "embed", "summarize", "backfill", "sweep")
SHORTEST_SECONDS, LONGEST_SECONDS = 0.5, 3.0
# The most that a clock is wrong, either way.
CLOCK_SECONDS = 1800.0


@dataclass(frozen=True, kw_only=True)
class Fault:
    # one of `KILLS` or `OTHERS`
    kind: str
    # how long it lasts, where it lasts
    seconds: float
    # whether the next one waits until everything has recovered, or comes on top
    alone: bool
    # chooses among processes that it may hit, from 0 to 1
    choice: float


class Faults:
    def __init__(self, deployment: OwnDeployment) -> None:
        self._on = deployment

    def make(self, fault: Fault) -> None:
        """Make a fault; to be called by the main thread. Raises what starting something again raises."""
        (KILLS | OTHERS)[fault.kind](self, fault)

    def kill_locked(self, fault: Fault) -> None:
        """SIGKILL a worker while a lock holds it in the middle of its transaction."""
        name = fault.kind.removeprefix("kill-")
        table = IN_THE_WAY[name]
        # sessions are locked against readers too: closing them begins with a look
        mode = "ACCESS EXCLUSIVE" if table == SESSIONS else "EXCLUSIVE"
        with self._on.connect() as holder, self._on.connect() as watcher, holder.transaction():
            holder.execute(f"LOCK TABLE {table} IN {mode} MODE")
            wait(lambda: count_rows(watcher, WAITING, [table]) > 0, CATCH_SECONDS, pause=0.02)
            self._on.processes[name].kill()
        self._on.processes[name].start()

    def kill_calling(self, fault: Fault) -> None:
        """SIGKILL a worker while it waits for a model, with rows claimed."""
        kind = fault.kind.removeprefix("kill-")
        with self._on.mood(f"{providers.HANG} {kind}"), self._on.connect() as connection:
            wait(lambda: count_rows(connection, CLAIMED, [kind]) > 0, CATCH_SECONDS, pause=0.02)
            self._on.processes[kind].kill()
        self._on.processes[kind].start()

    def freeze_worker(self, fault: Fault) -> None:
        """SIGSTOP a worker for longer than a lease, so that others take over what it holds; then SIGKILL."""
        names = (*WORKERS, "api")
        process = self._on.processes[names[int(fault.choice * len(names))]]
        process.signal(signal.SIGSTOP)
        time.sleep(self._on.settings.lease_seconds + fault.seconds)
        process.restart()

    def kill_process(self, fault: Fault) -> None:
        """SIGKILL the HTTP API or the clock, and start it after a while."""
        process = self._on.processes[fault.kind.removeprefix("kill-")]
        process.kill()
        time.sleep(fault.seconds / 2)
        process.start()

    def shift_clock(self, fault: Fault) -> None:
        """SIGKILL a process, and start it with a clock that is wrong by minutes, ahead or behind."""
        names = (*WORKERS, "beat")
        process = self._on.processes[names[int(fault.choice * len(names))]]
        part = (fault.seconds - SHORTEST_SECONDS) / (LONGEST_SECONDS - SHORTEST_SECONDS)
        process.environment[skewed.SHIFT] = f"{(2 * part - 1) * CLOCK_SECONDS:.0f}"
        process.restart()

    def fill_disk(self, fault: Fault) -> None:
        """Fill the data folder for a while, of which Postgres may die."""
        with deployment.disk_filled(self._on.folder):
            time.sleep(fault.seconds)
        self._on.revive_servers()

    def restart_redis(self, fault: Fault) -> None:
        """SIGKILL Redis, and start it after a while with its data or with none."""
        self._on.redis.kill()
        time.sleep(fault.seconds)
        if fault.kind == "redis-empty":
            shutil.rmtree(self._on.redis.data_dir / "redis")
        self._on.redis.start()

    def fill_redis(self, fault: Fault) -> None:
        """Let Redis refuse every write for a while, as with `maxmemory` reached."""
        with self._on.redis_client() as client:
            client.config_set("maxmemory", 1)
            try:
                time.sleep(fault.seconds)
            finally:
                client.config_set("maxmemory", 0)

    def flush_redis(self, _fault: Fault) -> None:
        """Delete all that Redis holds."""
        with self._on.redis_client() as client:
            client.flushall()

    def drop_clients(self, _fault: Fault) -> None:
        """Cut all connections of all clients of Redis."""
        with self._on.redis_client() as client:
            for kind in ("normal", "pubsub"):
                # ours may be among them
                with contextlib.suppress(RedisError):
                    client.execute_command("CLIENT", "KILL", "TYPE", kind)

    def restart_postgres(self, fault: Fault) -> None:
        """SIGKILL the server and its children: it recovers from its log, as after a crash."""
        self._on.postgres.kill()
        time.sleep(fault.seconds / 2)
        self._on.postgres.start()

    def freeze_postgres(self, fault: Fault) -> None:
        """SIGSTOP the server and its children for a while."""
        if (pid := self._on.postgres.pid) is None:
            return
        # it first, so that it starts no more of them
        os.kill(pid, signal.SIGSTOP)
        members = (*children()[pid], pid)
        try:
            _signal(members, signal.SIGSTOP)
            time.sleep(fault.seconds)
        finally:
            _signal(members, signal.SIGCONT)

    def refuse(self, fault: Fault) -> None:
        """Refuse connections to the database for a while, and end those that are open."""
        with psycopg.connect(self._on.postgres.superuser_dsn(), autocommit=True) as connection:
            connection.execute(f"ALTER DATABASE {DATABASE} WITH ALLOW_CONNECTIONS false")
            try:
                connection.execute(TERMINATE, [DATABASE])
                time.sleep(fault.seconds)
            finally:
                connection.execute(f"ALTER DATABASE {DATABASE} WITH ALLOW_CONNECTIONS true")

    def trouble_provider(self, fault: Fault) -> None:
        """Put both models in a mood for a while."""
        with self._on.mood(fault.kind.removeprefix("provider-")):
            time.sleep(1 + fault.seconds)


def _signal(pids: Iterable[int], number: signal.Signals) -> None:
    for pid in pids:
        # it may have ended
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


CALLING = ("embed", "summarize")
KILLS: dict[str, Callable[[Faults, Fault], None]] = {
    **{f"kill-{name}": Faults.kill_calling if name in CALLING else Faults.kill_locked for name in WORKERS},
    "freeze-worker": Faults.freeze_worker,
    "kill-api": Faults.kill_process,
    "kill-beat": Faults.kill_process,
    "redis-restart": Faults.restart_redis,
    "redis-empty": Faults.restart_redis,
    "postgres-restart": Faults.restart_postgres,
    "clock-shift": Faults.shift_clock,
}
"""What ends processes without warning; workers in the middle of their work."""
OTHERS: dict[str, Callable[[Faults, Fault], None]] = {
    "redis-full": Faults.fill_redis,
    "redis-flush": Faults.flush_redis,
    "redis-drop": Faults.drop_clients,
    "postgres-freeze": Faults.freeze_postgres,
    "postgres-refuse": Faults.refuse,
    "disk-full": Faults.fill_disk,
    **{f"provider-{mood}": Faults.trouble_provider for mood in ("hang", "fail", "rubbish", "late")},
}
"""What disturbs processes that live on."""


def draw(kills: int, seed: int, without: Collection[str] = ()) -> list[Fault]:
    """Draw `kills` faults that end processes and half as many others, mixed; every kind as often as any other.

    `without` names kinds that cannot be made here.
    """
    rng = random.Random(seed)  # noqa: S311 - no secret
    other_kinds = [kind for kind in OTHERS if kind not in without]
    kinds = [*_deal(list(KILLS), kills, rng), *_deal(other_kinds, (kills + 1) // 2, rng)]
    rng.shuffle(kinds)
    return [
        Fault(
            kind=kind,
            seconds=round(rng.uniform(SHORTEST_SECONDS, LONGEST_SECONDS), 2),
            alone=rng.random() < 0.5,
            choice=rng.random(),
        )
        for kind in kinds
    ]


def _deal(kinds: Sequence[str], count: int, rng: random.Random) -> list[str]:
    return [kind for _ in range(0, count, len(kinds)) for kind in rng.sample(kinds, len(kinds))][:count]


TURNED = 0.2
HTML = b"<html><h1>Something went wrong</h1></html>"


@contextmanager
def proxy_between(port: int, seed: int, seconds: float, turned: Counter[str]) -> Iterator[str]:
    """Run a proxy of a port; give its URL, and count the answers that it turns by what they become."""
    rng = random.Random(seed)  # noqa: S311 - no secret

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            status, answer, headers = 502, HTML, {"Content-Type": "text/html"}
            kind = rng.choice(("500", "404", "200 HTML")) if rng.random() < TURNED else ""
            if not kind or rng.random() < 0.5:
                passed = {name: self.headers[name] for name in ("Authorization", "Content-Type")}
                with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=seconds)) as api:
                    try:
                        api.request(self.command, self.path, body, passed)
                        response = api.getresponse()
                        status, answer, headers = response.status, response.read(), dict(response.headers)
                        kind = kind and f"{kind} after {status}"
                    except (OSError, http.client.HTTPException):
                        # there is no answer to turn
                        kind = ""
            if kind:
                turned[kind] += 1
                status, answer, headers = int(kind[:3]), HTML, {"Content-Type": "text/html"}
            self.send_response(status)
            for name, value in headers.items():
                if name.lower() in ("content-type", "retry-after"):
                    self.send_header(name, value)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        do_PATCH = do_DELETE = do_POST  # noqa: N815 - the server's names

        def log_message(self, *_: object) -> None:
            """Be silent."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
