"""Postgres and Redis fail over while bots talk: nothing is lost or doubled, and a bot waits for seconds."""

import os
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from sqlalchemy import text

from ops.local import migrate, processes
from ops.local.embedded.binaries import redis_server
from ops.local.embedded.postgres import EmbeddedPostgres
from ops.local.embedded.redis import EmbeddedRedis
from ops.local.embedded.server import LOOPBACK, free_port
from pipeline.store.connections.database import Database
from schemas.settings import Settings
from tests.api.conftest import body, said
from tests.conftest import TENANT, migrated_postgres, settings_of
from tests.deployment.standby import Standby, standby_of
from tests.processes.nodes import Process
from tests.waiting import rounds, until
from workers.app import make_app
from workers.connection import client_of, probe
from workers.queues import QUEUES

SECONDS = 120
BOTS = 3
SAYINGS = ("Котёл опять не греет", "暖气又坏了", "الغلاية معطلة مرة أخرى", "hervidor roto 🔧", "बॉयलर ख़राब है")


@dataclass
class Bot:
    """Sends messages one by one, each until it is accepted; every fifth it asks for a context."""

    number: int
    url: str
    ended: threading.Event
    sent: list[str] = field(default_factory=list)
    longest_seconds: float = 0.0
    unexpected: list[str] = field(default_factory=list)

    def run(self) -> None:
        headers = {"Authorization": "Bearer test-key"}
        for number in rounds("the story ends", most=100_000):
            if self.ended.is_set():
                return
            chat = f"test:{self.number}"
            message = said(number, f"{SAYINGS[number % len(SAYINGS)]} №{number}")
            asked: tuple[str, dict[str, Any]] = "/v1/messages", body(message, chat=chat)
            if number % 5 == 4:
                self._until_answered("/v1/context", {"chat_id": chat, "query": SAYINGS[0]}, headers)
            self._until_answered(*asked, headers)
            self.sent.append(message["external_id"])
            time.sleep(0.02)

    def _until_answered(self, path: str, payload: Any, headers: dict[str, str]) -> None:
        began = time.monotonic()
        for _ in rounds(f"{path} is answered", most=10 * SECONDS):
            with suppress(httpx.TransportError):
                answer = httpx.post(self.url + path, json=payload, headers=headers, timeout=30)
                if answer.is_success:
                    break
                if answer.status_code != 503 or "Retry-After" not in answer.headers:
                    self.unexpected.append(f"{path}: {answer.status_code} {answer.text[:200]}")
            time.sleep(0.1)
        self.longest_seconds = max(self.longest_seconds, time.monotonic() - began)


@dataclass
class Talk:
    """Bots that talk to a deployment, and what it has made of what they said."""

    settings: Settings
    bots: Sequence[Bot]
    running: Sequence[Process]
    payloads: int = 0

    def wait(self, more: int) -> None:
        """Until every bot has had so many more messages accepted."""
        goals = [len(bot.sent) + more for bot in self.bots]
        until(
            lambda: all(len(bot.sent) >= goal for bot, goal in zip(self.bots, goals, strict=True)),
            "the bots are heard",
            SECONDS,
        )

    def enqueue(self, payloads: int) -> None:
        """What a bot does that has Celery and nothing of ours."""
        app = make_app(self.settings)
        for _ in range(payloads):
            said_now = said(self.payloads, f"{SAYINGS[self.payloads % 5]} by queue")
            payload = {"v": 1, **body(said_now, chat="test:queue")}
            app.send_task("backscroll.ingest", kwargs=payload, queue="backscroll.accept")
            self.payloads += 1
        app.close()

    def ends(self) -> float:
        """Let the bots end; see that all is stored once and made memory of; return the longest wait."""
        for bot in self.bots:
            bot.ended.set()
        assert [line for bot in self.bots for line in bot.unexpected] == []
        with closing(Database.from_settings(self.settings)) as database:

            def read(statement: str) -> list[Any]:
                with database.tenant(TENANT) as connection:
                    return list(connection.execute(text(statement)))

            wanted = {f"test:{bot.number}": set(bot.sent) for bot in self.bots}
            if self.payloads:
                wanted["test:queue"] = {f"m{number}" for number in range(self.payloads)}

            def is_done() -> bool:
                stored: dict[str, list[str]] = {}
                for chat, message in read("SELECT chat_id, external_id FROM messages"):
                    stored.setdefault(chat, []).append(message)
                # the last one may have been stored, and its answer lost
                lost = [chat for chat, ids in wanted.items() if ids - set(stored.get(chat, ()))]
                doubled = [chat for chat, ids in stored.items() if len(ids) != len(set(ids))]
                assert doubled == []
                owed = read(
                    "SELECT kind FROM jobs WHERE dead_at IS NULL"
                    # what is being done is due again when its lease ends, in two minutes
                    " AND (claimed IS NOT NULL OR due_at < now() + interval '1 minute')"
                )
                return not lost and not owed

            until(is_done, "all is stored and made memory of", SECONDS)
            assert read("SELECT kind, last_error FROM jobs WHERE dead_at IS NOT NULL") == []
            counted = "SELECT sum(message_count) FROM conversation_sessions WHERE status <> 'merged'"
            assert read(counted) == read("SELECT count(*) FROM messages")
            assert read("SELECT count(*) FROM messages") == read(
                "SELECT count(DISTINCT message_id) FROM message_vectors"
            )
        return max(bot.longest_seconds for bot in self.bots)


def talking(settings: Settings, folder: Path, stack: ExitStack) -> Talk:
    """Run the API, the clock and workers on these servers, and bots that talk to them."""
    settings = settings.model_copy(update={"port": free_port(), "data_dir": folder, "sweep_seconds": 1.0})
    told = processes.environment(settings) | {"OMP_NUM_THREADS": "1", "BACKSCROLL_LEASE_SECONDS": "10"}
    commands = {
        "api": (processes.api_command(settings), ["api"]),
        "beat": (processes.beat_command(folder), ["beat"]),
        "worker": (processes.worker_command([*QUEUES], shutdown_seconds=1), [*QUEUES]),
    }
    running = []
    for name, (command, kinds) in commands.items():
        own = processes.own_environment(settings, *kinds)
        running.append(Process(name, command, folder, {**told, **own}))
        stack.callback(running[-1].end)
    url = f"http://{LOOPBACK}:{settings.port}"

    def is_ready() -> bool:
        with suppress(httpx.TransportError):
            return httpx.get(f"{url}/readyz").status_code == 200
        return False

    until(is_ready, "the API is ready", SECONDS)
    running[-1].wait_for_log(" ready.", timeout=SECONDS)
    bots = [Bot(number, url, threading.Event()) for number in range(BOTS)]
    for bot in bots:
        thread = threading.Thread(target=bot.run)
        thread.start()
        stack.callback(thread.join, 60)
        stack.callback(bot.ended.set)
    return Talk(settings, bots, running)


@pytest.fixture
def primary(memory_folder: Path, tmp_path: Path) -> Iterator[EmbeddedPostgres]:
    with migrated_postgres(memory_folder / tmp_path.name) as server:
        yield server


def of_both(primary: EmbeddedPostgres, standby: Standby, role: Any) -> str:
    """A URL of both servers, of which the one that takes writes is meant."""
    one, other = (urlsplit(server.dsn(role, tcp=True)) for server in (primary, standby))
    hosts = f"{LOOPBACK}:{one.port},{LOOPBACK}:{other.port}"
    return f"postgresql://{one.username}:{one.password}@{hosts}{one.path}?target_session_attrs=read-write"


def test_a_standby_takes_over_from_a_postgres_that_died(
    primary: EmbeddedPostgres, memory_folder: Path, redis: EmbeddedRedis, tmp_path: Path, record_property: Any
) -> None:
    with ExitStack() as stack:
        standby = stack.enter_context(standby_of(primary, memory_folder / "taking-over"))
        # an answer is given when the standby has it, too
        for statement in ("ALTER SYSTEM SET synchronous_standby_names = '*'", "SELECT pg_reload_conf()"):
            Standby.run(primary, statement)  # type: ignore[arg-type]
        urls = {
            f"{begin}database_url": of_both(primary, standby, role)
            for begin, role in {"": "app", "maintenance_": "maintenance", "owner_": "owner"}.items()
        }
        settings = settings_of(primary, "backscroll", **urls, redis_url=redis.url)
        talk = talking(settings, tmp_path, stack)
        talk.wait(20)
        primary.kill()
        standby.run("SELECT pg_promote()")
        talk.wait(20)
        waited = talk.ends()
        # commands of an operator go on there, too
        assert migrate.state(urls["owner_database_url"]).found == migrate.state(standby.dsn("owner")).newest
    record_property("longest wait", waited)
    print(f"a bot waited {waited:.1f} s at most")
    assert waited < 15


def redis_trio(folder: Path, stack: ExitStack) -> tuple[str, Process]:
    """A Redis, its replica and three Sentinels; the URL of all, and the Redis."""
    password, port, ports = "geheim", free_port(), [free_port() for _ in range(4)]
    environment = {"PATH": os.defpath}

    def run(name: str, lines: Sequence[str], *options: str) -> Process:
        config = folder / f"{name}.conf"
        config.write_text("\n".join([*lines, f"bind {LOOPBACK}", f"dir {folder}"]) + "\n")
        process = Process(name, [str(redis_server()), str(config), *options], folder, environment)
        stack.callback(process.end)
        return process

    keeps = [f"requirepass {password}", f"masterauth {password}", "appendonly yes"]
    first = run("redis", [f"port {port}", *keeps, "appenddirname one", "min-replicas-to-write 0"])
    run("replica", [f"port {ports[0]}", *keeps, "appenddirname two", f"replicaof {LOOPBACK} {port}"])
    for number in ports[1:]:
        run(
            f"sentinel-{number}",
            [
                f"port {number}",
                f"sentinel monitor house {LOOPBACK} {port} 2",
                f"sentinel auth-pass house {password}",
                "sentinel down-after-milliseconds house 1000",
                "sentinel failover-timeout house 5000",
            ],
            "--sentinel",
        )
    hosts = ",".join(f"{LOOPBACK}:{number}" for number in ports[1:])
    return f"sentinel://:{password}@{hosts}/0?master_name=house", first


def test_a_replica_takes_over_from_a_redis_that_died(
    primary: EmbeddedPostgres, tmp_path: Path, record_property: Any
) -> None:
    with ExitStack() as stack:
        url, first = redis_trio(tmp_path, stack)
        settings = settings_of(primary, "backscroll", redis_url=url)

        def is_known() -> bool:
            with suppress(Exception):
                probe(settings)
                with client_of(settings) as client:
                    return bool(client.info("replication")["connected_slaves"])
            return False

        until(is_known, "the Sentinels know a Redis with a replica", SECONDS)
        talk = talking(settings, tmp_path, stack)
        talk.enqueue(10)
        talk.wait(20)
        with client_of(settings) as client:
            client.execute_command("WAIT", 1, 5000)
        first.kill("SIGKILL")
        began = time.monotonic()

        def takes_writes() -> bool:
            with suppress(Exception):
                probe(settings)
                return True
            return False

        until(takes_writes, "another Redis takes writes", SECONDS)
        took = time.monotonic() - began
        talk.enqueue(10)
        talk.wait(20)
        waited = talk.ends()
    record_property("longest wait", waited)
    print(f"a bot waited {waited:.1f} s at most, the queue {took:.1f} s")
