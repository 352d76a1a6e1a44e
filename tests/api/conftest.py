"""The HTTP API in this process, served by a real uvicorn on a port of its own."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

import httpx
import psycopg
import pytest
import redis as redis_client
import uvicorn

from ops.local.embedded.postgres import EmbeddedPostgres
from ops.local.embedded.redis import EmbeddedRedis
from schemas.settings import Settings
from tests.conftest import HELLO, copied, settings_of
from tests.waiting import ended, until
from workers.api.app import make_web_app
from workers.api.protocol import Protocol
from workers.queues import INGEST

CHAT = "test:house"


@contextmanager
def served(settings: Settings) -> Iterator[httpx.Client]:
    """A client, with its API key, of an HTTP API with these settings."""
    listener = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(make_web_app(settings), http=Protocol, log_config=None, access_log=False)
    server = uvicorn.Server(config)

    def run() -> None:
        # uvicorn exits when the application refuses to start
        with suppress(SystemExit):
            server.run(sockets=[listener])

    running = threading.Thread(target=run)
    running.start()
    try:
        until(lambda: server.started or not running.is_alive(), "the HTTP API has started")
        assert running.is_alive(), "the HTTP API did not start"
        assert settings.api_key is not None
        with httpx.Client(
            base_url=f"http://127.0.0.1:{listener.getsockname()[1]}",
            headers={"Authorization": f"Bearer {settings.api_key.get_secret_value()}"},
            timeout=180,  # ends what hangs, not what is slow
        ) as client:
            yield client
    finally:
        server.should_exit = True
        ended(running)
        listener.close()


@pytest.fixture
def serve() -> Iterator[Callable[[Settings], httpx.Client]]:
    """Serves an HTTP API with settings of the test's own until it ends."""
    with ExitStack() as stack:
        yield lambda settings: stack.enter_context(served(settings))


@pytest.fixture(scope="module")
def standing_client(postgres: EmbeddedPostgres, redis: EmbeddedRedis) -> Iterator[httpx.Client]:
    """A client of one HTTP API for a whole module, for what leaves nothing behind that another test sees."""
    with (
        copied(postgres, "standing") as name,
        served(settings_of(postgres, name, redis_url=redis.url)) as client,
    ):
        yield client


@pytest.fixture
def client(settings: Settings) -> Iterator[httpx.Client]:
    """A client, with its API key, of an HTTP API on this test's database."""
    with served(settings) as client:
        yield client


@contextmanager
def away(postgres: EmbeddedPostgres, name: str) -> Iterator[None]:
    """Let nobody reach a database, and end the connections of whoever did."""
    allow = f"ALTER DATABASE {name} WITH ALLOW_CONNECTIONS "
    with psycopg.connect(postgres.superuser_dsn(), autocommit=True) as server:
        server.execute(allow + "false")
        server.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [name])
        yield
        server.execute(allow + "true")


@pytest.fixture
def hints(settings: Settings) -> Iterator[redis_client.Redis]:
    """The broker with empty queues, to look at what was hinted."""
    assert settings.redis_url is not None
    with redis_client.Redis.from_url(settings.redis_url.get_secret_value()) as broker:
        broker.delete(INGEST.full_name)
        yield broker
        broker.delete(INGEST.full_name)


def said(number: int, content: str = HELLO, **fields: Any) -> dict[str, Any]:
    """A message as a bot writes it."""
    return {
        "external_id": f"m{number}",
        "sender_id": "test:ann",
        "sender_name": "Ann",
        "content": content,
        "sent_at": f"2026-03-02T18:{number % 60:02}:00Z",
    } | fields


def body(*messages: dict[str, Any], chat: Any = CHAT) -> dict[str, Any]:
    """A body of `POST /v1/messages`."""
    return {"chat": chat, "messages": list(messages) or [said(1)]}


def problem_of(answer: httpx.Response, status: int) -> dict[str, Any]:
    """The problem that an answer tells, checked to be one."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    problem: dict[str, Any] = answer.json()
    assert {"type", "title", "status", "detail", "request_id"} <= problem.keys()
    assert problem.keys() <= {"type", "title", "status", "detail", "request_id", "field"}
    assert problem["status"] == status
    assert problem["type"].startswith("urn:backscroll:problem:")
    assert problem["request_id"] == answer.headers["x-request-id"]
    return problem
