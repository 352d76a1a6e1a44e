"""Accepting over HTTP: beside the bare insert and commit, beside what is slow, and while the worst is sent.

On servers of its own, durable as they are shipped, with the shipped command of the HTTP API and no workers: what is
measured is accepting alone. Bare and HTTP take turns in one run.
"""

import contextlib
import http.client
import json
import multiprocessing
import os
import secrets
import signal
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles

import psycopg

from ops import migrate, processes
from ops.bench import senders
from ops.bench.cases import Case, Say
from ops.embedded.ports import free_port
from ops.embedded.postgres import EmbeddedPostgres
from ops.embedded.process import die_with_parent
from ops.embedded.redis import EmbeddedRedis
from pipeline.clients.deterministic import DeterministicEmbedder
from schemas.settings import PREFIX, Settings, load_settings

TENANT = "bench"
READY_SECONDS = 60.0
CLIENTS = (1, 4)
ROUNDS = 5
ROUND_SECONDS = 2.0
LEAD_SECONDS = 0.3
"""From handing a round to the clients to its beginning: all of them are connected by then."""
BESIDE_SECONDS = 12.0
SMALL_PAUSE, DELETE_PAUSE, HEALTH_PAUSE = 0.01, 0.02, 0.01
SMALL_P99_MS, HEALTH_MS = 50.0, 100.0
AT_LEAST = 0.4
"""Of the bare insert and commit: what an HTTP API may cost."""


@dataclass(frozen=True, kw_only=True)
class Served:
    """The servers of a run."""

    settings: Settings
    dsn: str
    key: str

    @property
    def port(self) -> int:
        """Where the HTTP API listens."""
        return self.settings.port


@contextlib.contextmanager
def serving() -> Iterator[Served]:
    """Postgres, Redis and the HTTP API, ready; gone afterwards."""
    with (
        tempfile.TemporaryDirectory(prefix="backscroll-accepting-") as name,
        EmbeddedPostgres(Path(name), durable=True) as postgres,
        EmbeddedRedis(Path(name)) as redis,
    ):
        migrate.upgrade(postgres.dsn("owner"), DeterministicEmbedder().space)
        key = secrets.token_urlsafe(16)
        settings = load_settings(
            data_dir=Path(name),
            database_url=postgres.dsn("app"),
            redis_url=redis.url,
            api_key=key,
            port=free_port(),
            tenant=TENANT,
            embedding_provider="deterministic",
            embedding_model=None,
        )
        told = {PREFIX + each.upper() for each in processes.TOLD}
        environment = {
            each: value
            for each, value in processes.environment(settings).items()
            if not each.startswith(PREFIX) or each in told
        }
        with (Path(name) / "web.log").open("wb") as log:
            api = subprocess.Popen(
                processes.web_command(settings),
                cwd=name,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=die_with_parent(signal.SIGTERM),
            )
        try:
            _await(settings.port, api, Path(name) / "web.log")
            yield Served(settings=settings, dsn=postgres.dsn("app"), key=key)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(api.pid, signal.SIGKILL)
            api.wait()


def _await(port: int, api: "subprocess.Popen[bytes]", log: Path) -> None:
    deadline = time.monotonic() + READY_SECONDS
    while True:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5):
                return
        except (urllib.error.URLError, OSError) as error:
            if api.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"the HTTP API did not start: {log.read_text()[-1500:]}") from error
        time.sleep(0.1)


def measure(say: Say) -> list[Case]:
    """All of it, in under two minutes. To be called by the main thread."""
    say("starting Postgres, Redis and the HTTP API")
    context = multiprocessing.get_context("spawn")
    with serving() as served, ProcessPoolExecutor(max(CLIENTS) + 1, mp_context=context) as clients:
        return [
            *_beside_bare(served, clients, say),
            *_beside_large(served, clients, say),
            *_beside_worst(served, clients, say),
        ]


def _beside_bare(served: Served, clients: ProcessPoolExecutor, say: Say) -> list[Case]:
    """Single messages over HTTP beside the bare insert and commit, in turns."""
    chats = [f"bench:http-{client}" for client in range(max(CLIENTS))]
    bare_chats = [f"bench:bare-{client}" for client in range(max(CLIENTS))]
    with psycopg.connect(served.dsn) as connection:
        connection.execute("SELECT set_config('app.tenant_id', %s, true)", [TENANT])
        connection.execute("INSERT INTO tenants (tenant_id) VALUES (%s)", [TENANT])
        for chat in bare_chats:
            connection.execute("INSERT INTO chats (tenant_id, chat_id) VALUES (%s, %s)", [TENANT, chat])
    counted = {"bare": 0, "http": 0}

    def bare(count: int) -> float:
        counted["bare"] += 1_000_000
        return _rate(
            lambda at: [
                clients.submit(
                    senders.insert_alone, served.dsn, TENANT, chat, counted["bare"], at, ROUND_SECONDS
                )
                for chat in bare_chats[:count]
            ]
        )

    def over_http(count: int, size: int = 1) -> float:
        counted["http"] += 1_000_000
        return _rate(
            lambda at: [
                clients.submit(
                    senders.post_alone,
                    served.port,
                    served.key,
                    chat,
                    counted["http"],
                    size,
                    at,
                    ROUND_SECONDS,
                )
                for chat in chats[:count]
            ]
        )

    say("warming up")
    bare(max(CLIENTS))
    over_http(max(CLIENTS))
    cases = []
    for count in CLIENTS:
        told = f"{count} client{'s' if count > 1 else ''}"
        alone, through = [], []
        for number in range(ROUNDS):
            say(f"single messages, {told}: round {number + 1} of {ROUNDS}")
            alone.append(bare(count))
            through.append(over_http(count))
        cases += [
            Case(case=f"bare insert and commit, {told}", value=median(alone), unit="messages/s"),
            Case(
                case=f"accepted over HTTP, {told}",
                value=median(through),
                unit="messages/s",
                ratio=median(through) / median(alone),
                limit=AT_LEAST,
                more_is_better=True,
            ),
        ]
        cases.append(
            Case(
                case=f"accepted over HTTP, 100 in a request, {told}",
                value=100 * over_http(count, 100),
                unit="messages/s",
            )
        )
    return cases


def _beside_large(served: Served, clients: ProcessPoolExecutor, say: Say) -> list[Case]:
    """Small requests while an 8 MB one and deletions in another chat are in flight."""
    say("filling the chat that messages are deleted from")
    _posted(served, "bench:deleted", int(BESIDE_SECONDS / DELETE_PAUSE))
    say("small requests beside an 8 MB one and deletions")
    at = time.time() + 2 * LEAD_SECONDS
    port, key = served.port, served.key
    large = clients.submit(senders.post_large, port, key, "bench:large", at, BESIDE_SECONDS)
    deleted = clients.submit(
        senders.delete_alone, port, key, "bench:deleted", at, BESIDE_SECONDS, DELETE_PAUSE
    )
    small = clients.submit(
        senders.post_alone, port, key, "bench:small", 0, 1, at, BESIDE_SECONDS, SMALL_PAUSE
    ).result()
    return [
        Case(case="8 MB request meanwhile, median", value=median(large.result()), unit="s"),
        Case(case="deletion meanwhile, median", value=1000 * median(deleted.result()), unit="ms"),
        Case(case="small request beside them, median", value=1000 * median(small), unit="ms"),
        Case(
            case="small request beside them, p99",
            value=1000 * quantiles(small, n=100)[98],
            unit="ms",
            limit=SMALL_P99_MS,
        ),
    ]


def _beside_worst(served: Served, clients: ProcessPoolExecutor, say: Say) -> list[Case]:
    """`/healthz` while the worst questions and messages known are sent."""
    from ops.bench import worst

    chat = "bench:worst"
    _posted(served, chat, 200)
    said = {"sender_id": "bench:eve", "sent_at": "2026-03-02T18:00:00Z"}
    sent = [
        (
            "/v1/messages",
            json.dumps({"chat": chat, "messages": {**said, "external_id": f"worst-{n}", "content": content}}),
        )
        for n, content in enumerate(worst.messages())
    ]
    sent += [("/v1/context", json.dumps({"chat_id": chat, "query": each})) for each in worst.questions()]
    sent += [(path, body.decode()) for path, body in worst.bodies(chat).items()]
    say("/healthz beside the worst messages and questions")
    with tempfile.TemporaryDirectory() as folder:
        going_on = Path(folder) / "going on"
        going_on.touch()
        at = time.time() + 2 * LEAD_SECONDS
        health = clients.submit(senders.ask_health, served.port, at, HEALTH_PAUSE, str(going_on))
        try:
            took = clients.submit(senders.send_worst, served.port, served.key, sent, at).result()
        finally:
            going_on.unlink()
        answered = health.result()
    return [
        Case(case="worst message or question, slowest", value=max(took), unit="s"),
        Case(case="/healthz meanwhile, median", value=1000 * median(answered), unit="ms"),
        Case(case="/healthz meanwhile, slowest", value=1000 * max(answered), unit="ms", limit=HEALTH_MS),
    ]


def _posted(served: Served, chat: str, messages: int) -> None:
    client = http.client.HTTPConnection("127.0.0.1", served.port, timeout=60)
    for start in range(0, messages, 500):
        senders.post(client, served.key, chat, range(start, min(start + 500, messages)))
    client.close()


def _rate(start: Callable[[float], Sequence["Future[list[float]]"]]) -> float:
    """Calls a second of one round of all clients together."""
    rounds = start(time.time() + LEAD_SECONDS)
    return sum(len(each.result()) for each in rounds) / ROUND_SECONDS
