"""The HTTP API as several processes that share a port: all serve, one that dies is replaced, all end together."""

import json
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from select import select

import httpx
import psutil
import psycopg
import pytest

from ops.local.embedded.ports import free_port
from ops.local.embedded.postgres import EmbeddedPostgres
from schemas.settings import Settings
from tests.api.conftest import CHAT, body, said
from tests.api.test_process import environment, start
from tests.conftest import TENANT
from tests.ops.running import until
from workers.api import protocol

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

    def each_answers(self) -> bool:
        """Whether each answers connections of its own while all others stand still."""
        children = self.children()
        for serving in children:
            others = [child for child in children if child != serving]
            for other in others:
                other.suspend()
            try:
                if not self.answers():
                    return False
            finally:
                for other in others:
                    other.resume()
        return True


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
        process.wait()


def test_each_process_serves_and_one_that_is_killed_is_replaced_and_all_finish_what_they_are_doing(
    served: Served, postgres: EmbeddedPostgres, database_name: str
) -> None:
    # Given two, of which each serves while the other is busy
    assert len(served.children()) == 2
    assert served.each_answers()
    # When one dies
    dead, left = served.children()
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
    "the path": (b"GET /", b"a" * 1000),
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
def test_headers_of_any_size_are_not_taken(client: httpx.Client, what: str) -> None:
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


def test_headers_are_taken_up_to_64_kib_and_the_refusal_says_so(client: httpx.Client) -> None:
    for size in (30_000, 60_000):
        headers = {"X-Eins": "a" * (size // 2), "X-Zwei": "b" * (size // 2)}
        assert client.get("/healthz", headers=headers).status_code == 200
    refused = client.get("/healthz", headers={f"X-{n}": "c" * 7000 for n in range(10)})
    assert (refused.status_code, "65536" in refused.json()["detail"]) == (431, True)
    # nor is a large body taken for headers, however it is sent
    chunks = (b" " * 100 for _ in range(5000))
    assert client.post("/v1/messages", content=chunks).status_code != 431


def test_headers_that_never_end_are_ended(client: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "HEADER_SECONDS", 0.5)
    address = ("127.0.0.1", client.base_url.port or 0)
    for begun in (
        b"",
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
    # and whoever sends whole requests keeps the connection
    for _ in range(2):
        assert client.get("/healthz").status_code == 200
