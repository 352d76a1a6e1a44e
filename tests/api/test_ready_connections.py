"""Small messages are accepted in the event loop; nothing that befalls one of them reaches another."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx
import psycopg
import pytest

from ops.local.embedded.postgres import EmbeddedPostgres
from pipeline.store.connections.database import Database
from tests.api.conftest import CHAT, body, said
from tests.api.test_messages import stored

ANOTHER = "test:garden"


@pytest.fixture
def ready(client: httpx.Client) -> httpx.Client:
    """A client of an HTTP API that has a connection ready, and knows two chats."""
    for chat in (CHAT, ANOTHER):
        for number in (1, 2):
            assert client.post("/v1/messages", json=body(said(number), chat=chat)).status_code == 202
    return client


@pytest.fixture
def observer(
    ready: httpx.Client, postgres: EmbeddedPostgres, database_name: str
) -> Iterator[psycopg.Connection]:
    """A connection of an operator."""
    with psycopg.connect(postgres.superuser_dsn(database_name), autocommit=True) as connection:
        yield connection


def end_connections(observer: psycopg.Connection, condition: str) -> int:
    """End connections of the HTTP API; return how many."""
    ended = observer.execute(
        "SELECT count(pg_terminate_backend(pid, 5000)) FROM pg_stat_activity WHERE datname = current_database() "
        f"AND pid <> pg_backend_pid() AND usename = 'backscroll_app' AND {condition}"
    ).fetchone()
    assert ended is not None
    return int(ended[0])


def wait_for_a_lock(observer: psycopg.Connection) -> None:
    while not observer.execute("SELECT 1 FROM pg_locks WHERE NOT granted").fetchone():
        time.sleep(0.01)


def test_a_message_that_waits_for_its_chat_holds_up_no_other(
    ready: httpx.Client,
    observer: psycopg.Connection,
    postgres: EmbeddedPostgres,
    database_name: str,
) -> None:
    with ThreadPoolExecutor(1) as sender, psycopg.connect(postgres.superuser_dsn(database_name)) as rival:
        # Given a chat that somebody else keeps locked, and a message of it
        rival.execute("SELECT FROM chats WHERE chat_id = %s FOR UPDATE", [CHAT])
        waiting = sender.submit(ready.post, "/v1/messages", json=body(said(50)))
        wait_for_a_lock(observer)
        # When messages of another chat come
        for number in range(60, 80):
            assert ready.post("/v1/messages", json=body(said(number), chat=ANOTHER)).status_code == 202
        assert ready.get("/healthz").status_code == 200
        # Then they are accepted before it, and it when the chat is free
        assert not waiting.done()
        rival.rollback()
        assert waiting.result().json()["accepted"] == 1


def test_a_message_whose_connection_ends_on_the_way_is_accepted_all_the_same(
    ready: httpx.Client,
    observer: psycopg.Connection,
    postgres: EmbeddedPostgres,
    database_name: str,
    database: Database,
) -> None:
    with ThreadPoolExecutor(1) as sender, psycopg.connect(postgres.superuser_dsn(database_name)) as rival:
        rival.execute("SELECT FROM chats WHERE chat_id = %s FOR UPDATE", [CHAT])
        waiting = sender.submit(ready.post, "/v1/messages", json=body(said(50)))
        wait_for_a_lock(observer)
        assert end_connections(observer, "wait_event_type = 'Lock'") == 1
        rival.rollback()
        assert waiting.result().json()["accepted"] == 1
    assert stored(database).count("m50") == 1
