"""The HTTP API as a process of its own, as uvicorn starts it: settings, logs, warm model, a clean end."""

import json
import os
import re
import resource
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest

from ops.local.embedded.ports import free_port
from schemas.settings import Settings
from tests.api.conftest import body, said
from tests.ops.running import until
from workers.api.__main__ import MAX_CONNECTIONS

CHECKOUT = Path(__file__).parents[2]


def environment(settings: Settings, **changes: str) -> dict[str, str]:
    assert settings.database_url
    assert settings.redis_url
    assert settings.api_key
    kept = {name: value for name, value in os.environ.items() if not name.startswith("BACKSCROLL_")}
    return kept | {
        "BACKSCROLL_DATABASE_URL": settings.database_url.get_secret_value(),
        "BACKSCROLL_REDIS_URL": settings.redis_url.get_secret_value(),
        "BACKSCROLL_API_KEY": settings.api_key.get_secret_value(),
        "BACKSCROLL_EMBEDDING_PROVIDER": "deterministic",
        **changes,
    }


def start(port: int, environment: dict[str, str], log: Path, processes: int = 1) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "workers.api", "--port", str(port), "--processes", str(processes)]
    with log.open("wb") as out:
        return subprocess.Popen(command, cwd=CHECKOUT, env=environment, stdout=out, stderr=out)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "api.log"


@pytest.fixture
def api(settings: Settings, log: Path) -> Iterator[tuple[subprocess.Popen[bytes], httpx.Client]]:
    port = free_port()
    process = start(port, environment(settings), log)
    try:
        with httpx.Client(
            base_url=f"http://127.0.0.1:{port}", headers={"Authorization": "Bearer test-key"}
        ) as client:
            while True:
                assert process.poll() is None, log.read_text()
                try:
                    client.get("/healthz")
                    break
                except httpx.ConnectError:
                    time.sleep(0.05)
            yield process, client
    finally:
        process.kill()
        process.wait()


def records(log: Path) -> list[dict[str, Any]]:
    # every line of it, from its first
    return [json.loads(line) for line in log.read_text().splitlines()]


def test_it_loads_its_model_logs_requests_without_their_bodies_and_ends_cleanly(
    api: tuple[subprocess.Popen[bytes], httpx.Client], log: Path
) -> None:
    process, client = api
    client.post(
        "/v1/messages?note=private", json=body(said(1, "quiet words")), headers={"X-Request-ID": "r-1"}
    )
    client.post("/v1/messages", content=b'{"quiet": "words"', headers={"X-Request-ID": "r-2"})
    client.get("/v1/users/signal:Ørjan-private/export", headers={"X-Request-ID": "r-3"})
    client.delete("/v1/chats/app:private/messages/7", headers={"X-Request-ID": "r-4"})
    client.get("/v1/x/private%2Fя", headers={"X-Request-ID": "r-5"})
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=120) in (0, -signal.SIGTERM)
    assert "embedder_ready" in {entry["event"] for entry in records(log)}
    requests = {entry["request_id"]: entry for entry in records(log) if entry["event"] == "request"}
    assert requests["r-1"]["status"] == 202
    assert requests["r-1"]["path"] == "/v1/messages"
    assert requests["r-1"]["milliseconds"] > 0
    assert requests["r-2"]["status"] == 422
    # people's ids are in no line that outlives them
    assert requests["r-3"]["path"] == "/v1/users/{user_id}/export"
    assert requests["r-5"]["path"] == "unknown"
    for secret in ("quiet", "private", "test-key"):
        assert secret not in log.read_text()


def test_more_connections_than_it_holds_are_answered_503_until_some_are_closed(
    api: tuple[subprocess.Popen[bytes], httpx.Client],
) -> None:
    _, client = api
    # Given as many connections as a process holds, on which nobody says who they are
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    with ExitStack() as held:
        for _ in range(MAX_CONNECTIONS):
            held.enter_context(socket.create_connection((client.base_url.host, client.base_url.port)))
        # Then whoever else comes is refused
        health = client.base_url.join("/healthz")
        until(lambda: httpx.get(health).status_code == 503, "it is full", 15)
    # and when they are gone the same process answers
    until(lambda: client.get("/healthz").status_code == 200, "it answers again", 60)
    assert client.post("/v1/messages", json=body(said(1, "Лодка на месте 🚣"))).status_code == 202


def test_the_description_is_complete_and_refers_to_nothing_that_is_not_there(
    client: httpx.Client,
) -> None:
    described = client.get("/openapi.json").json()
    assert {re.split(r"/(?=\{)", path)[0] for path in described["paths"]} == {
        *("/healthz", "/readyz", "/v1/messages", "/v1/context", "/v1/search", "/v1/more"),
        *("/v1/memories", "/v1/memories/search", "/v1/documents", "/v1/users", "/v1/entities", "/v1/chats"),
        *("/v1/contexts", "/v1/forget", "/v1/sessions", "/v1/queries", "/v1/status"),
        *("/v1/keys", "/v1/keys/current", "/v1/events", "/v1/events/matrix", "/v1/sources", "/mcp"),
    }
    schemas = described["components"]["schemas"]
    references = set(_references(described))
    assert {name.rpartition("/")[2] for name in references} <= schemas.keys()
    assert {"IngestPayload", "ContextQuery", "Context", "Problem"} <= schemas.keys()


def _references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for name, inner in value.items():
            if name == "$ref":
                yield inner
            else:
                yield from _references(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _references(inner)
