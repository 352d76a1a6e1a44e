"""The HTTP API as a process of its own, as uvicorn starts it: settings, logs, warm model, a clean end."""

import json
import resource
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from select import select
from typing import Any

import httpx
import psutil
import psycopg
import pytest

from ops.local.embedded.postgres import EmbeddedPostgres
from ops.local.embedded.redis import EmbeddedRedis
from ops.local.embedded.server import free_port
from schemas.settings import Settings
from tests.api.conftest import CHAT, body, said
from tests.conftest import TENANT, copied, settings_of
from tests.harness.api import environment, start, until_healthy
from tests.mcp.conftest import HOUSE, over_http, talk
from tests.waiting import SECONDS, until
from workers.api import protocol
from workers.api.protocol import MAX_CONNECTIONS

CHECKOUT = Path(__file__).parents[2]


Running = tuple[subprocess.Popen[bytes], httpx.Client]


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("api") / "api.log"


@pytest.fixture(scope="module")
def api(postgres: EmbeddedPostgres, redis: EmbeddedRedis, log: Path) -> Iterator[Running]:
    """One process for all stories, of which the last ends it."""
    port = free_port()
    with copied(postgres, "process") as name:
        process = start(port, environment(settings_of(postgres, name, redis_url=redis.url)), log)
        try:
            with httpx.Client(
                base_url=f"http://127.0.0.1:{port}", headers={"Authorization": "Bearer test-key"}
            ) as client:
                until_healthy(process, client, log)
                yield process, client
        finally:
            process.kill()
            process.wait(SECONDS)


def records(log: Path) -> list[dict[str, Any]]:
    # every line of it, from its first
    return [json.loads(line) for line in log.read_text().splitlines()]


def test_connections_on_which_nobody_says_more_make_way_for_others(api: Running) -> None:
    _, client = api
    begun = (
        b"",
        b"POST /v1/messages HTTP/1.1\r\nHost: x\r\nX-",
        b"POST /inspect/login HTTP/1.1\r\nHost: x\r\n"
        b"Sec-Fetch-Site: same-origin\r\nContent-Length: 100\r\n\r\nkey=",
    )
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    with ExitStack() as held:
        # Given more than twice as many connections as a process holds, on which a request is begun at most
        for number in range(MAX_CONNECTIONS * 12 // 5):
            connection = socket.create_connection((client.base_url.host, client.base_url.port))
            held.enter_context(connection).sendall(begun[number % 3])
        # Then everybody else is served as ever, by new connections and by one that was there before
        for number in range(5):
            assert httpx.get(client.base_url.join("/healthz"), timeout=PATIENCE).status_code == 200
            answer = client.post(
                "/v1/messages", json=body(said(number, "Лодка на месте 🚣")), timeout=PATIENCE
            )
            assert answer.status_code == 202


def test_a_request_that_is_worked_on_does_not_make_way(
    client: httpx.Client, postgres: EmbeddedPostgres, database_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protocol, "MAX_CONNECTIONS", 20)
    assert client.post("/v1/messages", json=body(said(1))).status_code == 202
    address = (client.base_url.host, client.base_url.port)
    with psycopg.connect(postgres.superuser_dsn(database_name)) as rival, ExitStack() as held:
        # Given the oldest connection with a request that waits for somebody else
        rival.execute("SELECT 1 FROM chats WHERE chat_id = %s FOR UPDATE", [CHAT])
        sender = held.enter_context(socket.create_connection(address))
        content = json.dumps(body(said(2))).encode()
        head = f"Authorization: Bearer test-key\r\nContent-Length: {len(content)}\r\n\r\n"
        sender.sendall(f"POST /v1/messages HTTP/1.1\r\nHost: x\r\n{head}".encode() + content)
        # When many others come
        for _ in range(100):
            held.enter_context(socket.create_connection(address))
        # the client's own connection, idle meanwhile, has made way
        assert httpx.get(client.base_url.join("/healthz")).status_code == 200
        rival.rollback()
        # Then it is answered all the same
        sender.settimeout(PATIENCE)
        assert sender.recv(65536).startswith(b"HTTP/1.1 202")


def test_no_secret_stands_in_a_log_or_an_answer(api: Running, log: Path) -> None:
    _, client = api
    limited = {"label": "a bot", "scopes": ["operate"], "requests_per_second": 0.2}
    new = client.post("/v1/keys", json=limited).json()
    rotated = client.post(f"/v1/keys/{new['id']}/rotate", json={}).json()
    secrets = (new["key"], rotated["key"], "bks_" + "w" * 43, "someone-elses-password")
    told = ""
    for secret in secrets:
        with httpx.Client(base_url=client.base_url, headers={"Authorization": f"Bearer {secret}"}) as bot:
            for _ in range(3):
                told += bot.post("/v1/messages", content=b"{").text + bot.get(f"/v1/keys?key={secret}").text
            told += bot.post("/v1/keys", content=json.dumps({"label": secret, "scopes": [secret]})).text
            told += bot.delete(f"/v1/keys/{secret}").text
    # a request is logged after its answer
    client.get("/v1/status", headers={"X-Request-ID": "s-1"})
    until(lambda: "s-1" in log.read_text(), "all is logged")
    for secret in (*secrets, "test-key"):
        assert secret not in log.read_text()
        assert secret not in told


def test_calls_of_tools_are_logged_under_the_id_of_their_request_without_ids_of_people(
    api: Running, log: Path
) -> None:
    _, client = api
    # When a model calls tools, and one call has an id
    talk(
        over_http(str(client.base_url).rstrip("/")),
        ("about", {"user_id": "секрет:Ørjan-private", "chat_id": HOUSE}),
        ("search", {"chat_id": HOUSE, "query": "private 锅炉"}),
        ("remember", {"scope": "user", "user_id": "x:private", "content": ["private"]}),
    )
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "chats"}}
    assert client.post("/mcp", json=call, headers={"X-Request-ID": "t-1"}).status_code == 200

    # Then the request and the route that it called have that id
    def paths() -> list[str]:
        return sorted(each["path"] for each in records(log) if each.get("request_id") == "t-1")

    until(lambda: paths() == ["/mcp", "/v1/chats"], "both are logged")
    # And no line holds a word of the calls, an id of a person or the key
    assert not any(word in log.read_text() for word in ("private", "锅炉", HOUSE, "test-key"))


def test_it_loads_its_model_logs_requests_without_their_bodies_and_ends_cleanly(
    api: Running, log: Path
) -> None:
    process, client = api
    client.post(
        "/v1/messages?note=private", json=body(said(1, "quiet words")), headers={"X-Request-ID": "r-1"}
    )
    client.post("/v1/messages", content=b'{"quiet": "words"', headers={"X-Request-ID": "r-2"})
    client.get("/v1/users/signal:Ørjan-private/export", headers={"X-Request-ID": "r-3"})
    client.get("/v1/x/private%2Fя", headers={"X-Request-ID": "r-4"})
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=120) in (0, -signal.SIGTERM)
    assert "embedder_ready" in {entry["event"] for entry in records(log)}
    requests = {entry["request_id"]: entry for entry in records(log) if entry["event"] == "request"}
    assert (requests["r-1"]["status"], requests["r-1"]["path"]) == (202, "/v1/messages")
    assert requests["r-1"]["milliseconds"] > 0
    assert requests["r-2"]["status"] == 422
    # people's ids are in no line that outlives them
    assert requests["r-3"]["path"] == "/v1/users/{user_id}/export"
    assert requests["r-4"]["path"] == "unknown"
    for secret in ("quiet", "private", "test-key"):
        assert secret not in log.read_text()


PATIENCE = 60.0


@dataclass
class Served:
    """The HTTP API's first process and its port."""

    process: "subprocess.Popen[bytes]"
    port: int
    log: Path

    def children(self) -> list[psutil.Process]:
        return psutil.Process(self.process.pid).children()

    def answers(self) -> bool:
        """Whether somebody answers one of twenty new connections, which the processes share."""
        for _ in range(20):
            try:
                return httpx.get(f"http://127.0.0.1:{self.port}/readyz", timeout=1).status_code == 200
            except httpx.TransportError:
                continue
        return False

    def started(self) -> int:
        """How many have ever come up."""
        lines = [json.loads(line)["event"] for line in self.log.read_text().splitlines()]
        return lines.count("Application startup complete.")


@pytest.fixture
def served(settings: Settings, tmp_path: Path) -> Iterator[Served]:
    port, log = free_port(), tmp_path / "api.log"
    process = start(port, environment(settings), log, processes=2)
    family: list[psutil.Process] = []
    served = Served(process, port, log)
    try:
        until(lambda: served.started() == 2, "both have started")
        family = served.children()
        yield served
    finally:
        for left in [*family, *(served.children() if process.poll() is None else [])]:
            if left.is_running():
                left.resume()
                left.kill()
        process.kill()
        process.wait(SECONDS)


def test_each_process_serves_and_one_that_is_killed_is_replaced_and_all_finish_what_they_are_doing(
    served: Served, postgres: EmbeddedPostgres, database_name: str
) -> None:
    # Given two, of which the one serves while the other is busy
    dead, left = served.children()
    left.suspend()
    assert served.answers()
    left.resume()
    # When that one dies
    dead.kill()
    # Then the other serves on, and another comes in its place
    assert served.answers()
    until(lambda: served.started() == 3, "another has started")
    assert {child.pid for child in served.children()} > {left.pid}
    assert len(served.children()) == 2
    # and all end when what they are doing is done
    key = {"Authorization": "Bearer test-key"}
    family = served.children()
    url = f"http://127.0.0.1:{served.port}/v1/messages"
    assert httpx.post(url, json=body(said(1)), headers=key).status_code == 202
    with psycopg.connect(postgres.superuser_dsn(database_name)) as rival:
        # Given a request that waits for somebody else
        rival.execute("SELECT 1 FROM chats WHERE tenant_id = %s AND chat_id = %s FOR UPDATE", [TENANT, CHAT])
        with socket.create_connection(("127.0.0.1", served.port)) as sender:
            content = json.dumps(body(said(2))).encode()
            head = (
                "POST /v1/messages HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer test-key\r\n"
                f"Content-Length: {len(content)}\r\n\r\n"
            )
            sender.sendall(head.encode() + content)
            with psycopg.connect(postgres.superuser_dsn(database_name), autocommit=True) as observer:
                until(
                    lambda: (
                        observer.execute("SELECT 1 FROM pg_locks WHERE NOT granted").fetchone() is not None
                    ),
                    "the request waits",
                )
            # When all are told to end
            served.process.send_signal(signal.SIGTERM)
            time.sleep(0.2)
            rival.rollback()
            # Then it is answered
            sender.settimeout(30)
            assert sender.recv(65536).startswith(b"HTTP/1.1 202")
    assert served.process.wait(timeout=120) == -signal.SIGTERM
    _, alive = psutil.wait_procs(family, timeout=5)
    assert not alive


ENDLESS = {
    "lines": (b"GET /healthz HTTP/1.1\r\n", b"X-Zeile: " + "ж漢".encode() * 40 + b"\r\n"),
    "after a body": (
        b"POST /v1/messages HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n",
        b"X-Trailer: " + b"t" * 200 + b"\r\n",
    ),
    "a chunk": (
        b"POST /v1/messages HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n2;",
        b"e" * 1000,
    ),
}


@pytest.mark.parametrize("what", ENDLESS)
def test_headers_of_any_size_are_not_taken(standing_client: httpx.Client, what: str) -> None:
    client = standing_client
    begin, piece = ENDLESS[what]
    sent, answered = 0, b""
    with socket.create_connection(("127.0.0.1", client.base_url.port or 0), timeout=PATIENCE) as sender:
        sender.sendall(begin)
        try:
            while sent < 20 * protocol.MAX_HEADER_BYTES and b" 431 " not in answered:
                sender.sendall(piece * (4096 // len(piece)))
                sent += 4096
                if select([sender], [], [], 0.005)[0]:
                    part = sender.recv(65536)
                    answered += part
                    if not part:
                        break
        except ConnectionError:
            pass
    assert protocol.MAX_HEADER_BYTES / 2 < sent < 20 * protocol.MAX_HEADER_BYTES
    assert client.get("/healthz").status_code == 200


def test_headers_are_taken_up_to_16_kib_and_the_refusal_says_so(standing_client: httpx.Client) -> None:
    client = standing_client
    headers = {"X-Eins": "a" * 7_000, "X-Zwei": "b" * 7_000}
    assert client.get("/healthz", headers=headers).status_code == 200
    refused = client.get("/healthz", headers={f"X-{n}": "c" * 7000 for n in range(10)})
    assert (refused.status_code, "16384" in refused.json()["detail"]) == (431, True)
    # nor is a large body taken for headers, however it is sent
    chunks = (b" " * 100 for _ in range(5000))
    assert client.post("/v1/messages", content=chunks).status_code != 431


def test_headers_that_never_end_are_ended(
    standing_client: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = standing_client
    monkeypatch.setattr(protocol, "HEADER_SECONDS", 0.5)
    address = ("127.0.0.1", client.base_url.port or 0)
    for begun in (
        b"GET /healthz HTTP/1.1\r\nHost: x\r\nX-Slow: ",
        b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\nGET /he",
    ):
        with socket.create_connection(address, timeout=PATIENCE) as sender:
            sender.sendall(begun)
            answered = b""
            try:
                while part := sender.recv(65536):
                    answered += part
            except ConnectionResetError:
                pass
        # the request before it, on the same connection, had its answer
        assert answered.count(b"HTTP/1.1 200") == begun.count(b"\r\n\r\n")
