"""A whole deployment in processes: a Redis, a worker of each queue and, where a story asks for it, the clock."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest
import redis as redis_client
from celery import Celery
from pytest_celery import CeleryBrokerCluster, CeleryWorkerCluster
from pytest_celery.fixtures.setup import celery_setup, celery_setup_cls  # noqa: F401 - fixtures
from sqlalchemy import text

from ops.local import processes
from ops.local.embedded.postgres import EmbeddedPostgres
from ops.local.embedded.server import free_port
from pipeline.ingest import accept as ingest
from pipeline.ingest import place as placing
from pipeline.ingest.sessionize import SessionPolicy
from pipeline.jobs import dead_letters
from pipeline.jobs.dead_letters import JobFilter
from pipeline.operations.status import Progress, progress
from pipeline.store.connections.database import Database
from pipeline.store.jobs import jobs
from schemas.messages import ChatIn, MessageIn
from schemas.settings import Settings
from tests.conftest import EPOCH, TENANT, copied, settings_of
from tests.processes.nodes import Process, RedisProcess, WorkerProcess
from tests.waiting import until
from workers.app import REDIS_TRANSPORT, make_app
from workers.queues import QUEUES

DATABASE = "processes"
LEASE_SECONDS = 2
SWEEP_SECONDS = 0.5
# What a worker that holds a task has to finish it when told to end.
SOFT_SECONDS = 2
# A killed worker's tasks come back after so long; ten minutes in earnest.
VISIBILITY_SECONDS = 4
SECONDS = 240
# what is put off for long is not waited for
_TO_LEARN = "SELECT 1 FROM jobs WHERE kind = 'extract' AND due_at < now() + interval '1 hour'"
_OWED = """
    SELECT kind, count(*), count(dead_at), max(attempts), min(due_at) - now(), max(last_error)
    FROM jobs GROUP BY kind
"""


@dataclass(kw_only=True)
class Deployment:
    """What runs, and ways to look at it."""

    # of its database
    name: str
    settings: Settings
    environment: Mapping[str, str]
    folder: Path
    postgres: EmbeddedPostgres
    database: Database
    server: RedisProcess
    redis: "redis_client.Redis[str]"
    app: Celery
    workers: dict[str, WorkerProcess] = field(default_factory=dict)

    def start_workers(
        self,
        *,
        names: Iterable[str] = QUEUES,
        together: bool = False,
        include: str | None = None,
        **environment: str,
    ) -> None:
        """A worker of each of these queues, or one of all of them, with the arguments that `backscroll` gives it.

        They import one more module, if one is named, and have this environment too.
        """
        started: dict[str, WorkerProcess] = {}
        for served in [[*names]] if together else [[name] for name in names]:
            name, command = served[0], self._command(served)
            # no more secrets than it has in earnest
            told = {**self.environment, **processes.own_environment(self.settings, *served), **environment}
            if include:
                at = command.index("worker") + 1
                command[at:at] = ["-I", include]
            started[name] = WorkerProcess(name, command, self.folder, told)
        self.workers |= started
        for worker in started.values():
            worker.ready()

    def _command(self, names: list[str]) -> list[str]:
        command = processes.worker_command(names, shutdown_seconds=SOFT_SECONDS)
        transport = REDIS_TRANSPORT | {
            "visibility_timeout": VISIBILITY_SECONDS,
            "unacked_restore_interval": 1,
        }
        return [*command, f"broker.transport_options=(json){json.dumps(transport)}"]

    def revive(self) -> None:
        """Start again whatever worker a story has ended."""
        for worker in self.workers.values():
            if not worker.runs:
                worker.restart()

    def send(self, chat: str, messages: Sequence[Mapping[str, Any]], **options: Any) -> None:
        """What a bot does that has Celery and nothing of ours."""
        self.send_payload({"v": 1, "chat": chat, "messages": list(messages)}, **options)

    def send_payload(self, payload: Mapping[str, Any], **options: Any) -> None:
        """The same with any payload."""
        with Celery(broker=self.server.url) as bot:
            bot.send_task("backscroll.ingest", kwargs=dict(payload), queue="backscroll.accept", **options)

    def accept(self, chat: str, messages: Sequence[Mapping[str, Any]]) -> None:
        """What the door does, without its hint."""
        given = [MessageIn.model_validate(message) for message in messages]
        ingest.accept(self.database, TENANT, ChatIn(chat_id=chat), given)

    def accept_and_place(self, chat: str, messages: Sequence[Mapping[str, Any]]) -> None:
        """What the door and the worker of `ingest` do; what follows is owed, but not before `make_due`."""
        self.accept(chat, messages)
        with self.database.tenant(TENANT) as connection:
            placing.place(connection, TENANT, {chat: None}, SessionPolicy.of(self.settings))
            jobs.drop(connection, TENANT, ["ingest"], [chat])
            connection.execute(
                text("UPDATE jobs SET due_at = due_at + interval '1 day' WHERE due_at IS NOT NULL")
            )

    def make_due(self) -> None:
        """Let the work be done now that was put off."""
        with self.database.tenant(TENANT) as connection:
            connection.execute(
                text("UPDATE jobs SET due_at = now() WHERE due_at > now() + interval '1 hour'")
            )

    def progress(self, chat: str) -> Progress:
        """How far a chat is."""
        return progress(self.database, TENANT, [chat])

    def until(self, condition: Callable[[], bool], what: str, seconds: float = SECONDS) -> None:
        """Wait until it is so; when it takes too long, fail with what is owed and what each worker last said."""
        try:
            until(condition, what, seconds)
        except AssertionError as late:
            said = [
                f"{name} {worker.exit_code or 'runs'}: {worker.logs()[-300:]!r}"
                for name, worker in self.workers.items()
            ]
            queued = {queue.full_name: self.redis.llen(queue.full_name) for queue in QUEUES.values()}
            raise AssertionError("\n".join((str(late), str(self.query(_OWED)), str(queued), *said))) from None

    def wait_for(self, chat: str, messages: int) -> Progress:
        """Wait until so many messages are stored and nothing is owed for them; look whether all is done."""

        def done() -> bool:
            now = self.progress(chat)
            return now.messages >= messages and now.complete and not self.query(_TO_LEARN)

        self.until(done, f"{chat}: {messages} messages remembered")
        found = self.progress(chat)
        assert found.messages == messages
        assert (found.waiting, found.pending, found.dead, found.error) == (0, 0, 0, None)
        assert found.embedded == found.to_embed == messages
        assert found.summarized == found.closed > 0
        return found

    def query(self, statement: str, **values: Any) -> list[Any]:
        """Rows of the tenant."""
        with self.database.tenant(TENANT) as connection:
            return list(connection.execute(text(statement), values))

    def vectors_of(self, chat: str) -> dict[str, int]:
        """How many vectors each message of the chat has."""
        rows = self.query(
            "SELECT m.external_id, count(v.message_id) FROM messages m "
            "LEFT JOIN message_vectors v ON v.message_id = m.id WHERE m.chat_id = :chat GROUP BY 1",
            chat=chat,
        )
        return {str(row[0]): int(row[1]) for row in rows}

    @contextmanager
    def as_owner(self) -> Iterator[psycopg.Connection]:
        """A transaction of the role that owns the tables."""
        with psycopg.connect(self.postgres.dsn("owner", database=self.name)) as connection:
            yield connection

    @contextmanager
    def _altered(self, change: str, back: str) -> Iterator[None]:
        """Change the database while this holds; who was in it is out, and so notices."""
        with psycopg.connect(self.postgres.superuser_dsn(), autocommit=True) as connection:
            connection.execute(f"ALTER DATABASE {self.name} {change}".encode())
            try:
                connection.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [self.name]
                )
                yield
            finally:
                connection.execute(f"ALTER DATABASE {self.name} {back}".encode())

    def postgres_away(self) -> AbstractContextManager[None]:
        """While this holds nobody gets into the database."""
        return self._altered("WITH ALLOW_CONNECTIONS false", "WITH ALLOW_CONNECTIONS true")

    def postgres_read_only(self) -> AbstractContextManager[None]:
        """While this holds the database takes no writes, as when its server has become a standby."""
        setting = "default_transaction_read_only"
        return self._altered(f"SET {setting} = on", f"RESET {setting}")

    @contextmanager
    def locked(self, table: str) -> Iterator[None]:
        """While this holds nobody writes to the table, and who wants to is stuck in the middle of its work."""
        with psycopg.connect(self.postgres.superuser_dsn(self.name)) as connection:
            # it holds as long as the story wants
            connection.execute("SET idle_in_transaction_session_timeout = 0")
            connection.execute(f"LOCK TABLE {table} IN EXCLUSIVE MODE")
            yield

    def wait_until_stuck(self, table: str) -> None:
        """Wait until somebody waits for the lock on the table."""
        with psycopg.connect(self.postgres.superuser_dsn(self.name), autocommit=True) as connection:
            statement = "SELECT count(*) FROM pg_locks WHERE relation = CAST(%s AS regclass) AND NOT granted"
            until(
                lambda: connection.execute(statement, [table]).fetchone() != (0,),
                f"stuck at {table}",
                SECONDS,
            )

    def records(self, name: str) -> list[dict[str, Any]]:
        """The log of a worker since its last start, line by line."""
        return [json.loads(line) for line in self.workers[name].logs().splitlines() if line.startswith("{")]

    def dead_letters(self) -> list[dict[str, Any]]:
        """The arguments `{"args": …, "kwargs": …}` of the payloads that were refused, the oldest first."""
        rows = self.query("SELECT payload FROM refused_payloads ORDER BY refused_at")
        return [json.loads(row.payload) for row in rows]


def talk(count: int, *, word: str = "lighthouse") -> list[dict[str, Any]]:
    """So many messages of two people, five to a session, as a bot writes them."""
    told = []
    for number in range(count):
        session, place = divmod(number, 5)
        told.append(
            {
                "external_id": f"m{number}",
                "sender_id": f"test:{'ann' if number % 2 else 'bob'}",
                "sender_name": "Ann" if number % 2 else "Bob",
                "content": f"We meet at the {word} number {number}, shall we? Встретимся, 好吗 👍🏽",
                "sent_at": (EPOCH + timedelta(hours=2 * session, minutes=place)).isoformat(),
            }
        )
    return told


@contextmanager
def deployed(postgres: EmbeddedPostgres, folder: Path, name: str) -> Iterator[Deployment]:
    """A Redis and a database of its own; workers are started by the story, and ended here."""
    with copied(postgres, name):
        yield from _deployed(postgres, folder, name)


def _deployed(postgres: EmbeddedPostgres, folder: Path, name: str) -> Iterator[Deployment]:
    server = RedisProcess(folder)
    changes = {"lease_seconds": LEASE_SECONDS, "sweep_seconds": SWEEP_SECONDS, "owner_database_url": None}
    settings = settings_of(postgres, name, redis_url=server.url, data_dir=folder, **changes)
    told = processes.environment(settings) | {
        "BACKSCROLL_LEASE_SECONDS": str(LEASE_SECONDS),
        # a line for every payload and batch
        "BACKSCROLL_LOG_LEVEL": "debug",
        "OMP_NUM_THREADS": "1",
    }
    client = redis_client.Redis.from_url(server.url, decode_responses=True)
    database = Database.from_settings(settings)
    running = Deployment(
        name=name,
        settings=settings,
        environment=told,
        folder=folder,
        postgres=postgres,
        database=database,
        server=server,
        redis=client,
        app=make_app(settings),
    )
    try:
        yield running
    finally:
        for worker in running.workers.values():
            if worker.runs:
                worker.kill("SIGTERM")
        for worker in running.workers.values():
            worker.end()
        running.app.close()
        client.close()
        database.close()
        server.end()


@pytest.fixture(scope="package")
def deployment(postgres: EmbeddedPostgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    """A Redis and a worker of each queue on a database of their own, for all stories of this folder."""
    with deployed(postgres, tmp_path_factory.mktemp("processes"), DATABASE) as running:
        running.start_workers()
        yield running


@pytest.fixture(scope="package")
def celery_broker_cluster(deployment: Deployment) -> CeleryBrokerCluster:
    return CeleryBrokerCluster(deployment.server)


@pytest.fixture(scope="package")
def celery_backend_cluster() -> None:
    """None: results are in Postgres."""


@pytest.fixture(scope="package")
def celery_worker_cluster(deployment: Deployment) -> CeleryWorkerCluster:
    return CeleryWorkerCluster(*deployment.workers.values())


@pytest.fixture(scope="package")
def celery_setup_app(deployment: Deployment) -> Celery:
    return deployment.app


@contextmanager
def clock(deployment: Deployment) -> Iterator[None]:
    """While this holds, the clock calls for a sweep every half second."""
    command = processes.beat_command(deployment.folder)
    told = {**deployment.environment, **processes.own_environment(deployment.settings, "beat")}
    beat = Process("beat", command, deployment.folder, told)
    try:
        beat.wait_for_log("beat: Starting...", timeout=int(SECONDS))
        yield
        assert beat.runs
    finally:
        beat.end()


@contextmanager
def door(deployment: Deployment, **environment: str) -> Iterator[str]:
    """The HTTP API as a process of its own, with this environment too; its address."""
    settings = deployment.settings.model_copy(update={"port": free_port()})
    told = processes.environment(settings) | processes.own_environment(settings, "api") | environment
    process = Process("api", processes.api_command(settings), deployment.folder, told)
    url = f"http://127.0.0.1:{settings.port}"

    def lives() -> bool:
        with suppress(httpx.TransportError):
            return httpx.get(f"{url}/healthz").status_code == 200
        return False

    try:
        until(lives, "the door lives", SECONDS)
        yield url
    finally:
        process.end()


@pytest.fixture(scope="module")
def beat(deployment: Deployment) -> Iterator[None]:
    """The clock of the deployment that all stories share."""
    with clock(deployment):
        yield


def drop_dead_letters(deployment: Deployment) -> None:
    items, _ = dead_letters.listing(deployment.database, TENANT, JobFilter())
    dead_letters.drop(deployment.database, items)
