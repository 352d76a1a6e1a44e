"""The HTTP API as a process of its own, as uvicorn starts it: settings, logs, warm model, a clean end."""

import json
import os
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
from ops.local.embedded.postgres import EmbeddedPostgres
from ops.local.embedded.redis import EmbeddedRedis
from schemas.settings import Settings
from tests.api.conftest import body, said
from tests.conftest import copied, settings_of
from tests.mcp.conftest import HOUSE, over_http, talk
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


def test_more_connections_than_it_holds_are_answered_503_until_some_are_closed(
    api: Running,
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
    found = [each["path"] for each in records(log) if each.get("request_id") == "t-1"]
    assert sorted(found) == ["/mcp", "/v1/chats"]
    # And no line holds a word of the calls, an id of a person or the key
    assert not any(word in log.read_text() for word in ("private", "锅炉", HOUSE, "test-key"))
    loggers = {each.get("logger", "") for each in records(log)}
    assert not any("mcp" in name or "httpx" in name for name in loggers)


def test_it_loads_its_model_logs_requests_without_their_bodies_and_ends_cleanly(
    api: Running, log: Path
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
