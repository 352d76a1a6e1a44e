"""What a bot relies on when it hands messages over."""

import json
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import psycopg
import pytest
import redis as redis_client
from sqlalchemy import text

from ops.local.embedded.postgres import EmbeddedPostgres
from pipeline.store.connections.database import Database
from tests.api.conftest import CHAT, body, problem_of, said
from tests.conftest import TENANT
from tests.scripts import batch
from workers.queues import INGEST


def stored(database: Database) -> list[str]:
    with database.tenant(TENANT) as connection:
        return list(connection.scalars(text("SELECT external_id FROM messages ORDER BY external_id")))


def hint(broker: redis_client.Redis) -> dict[str, Any]:
    """The next hint of the queue ingest."""
    taken = broker.brpop([INGEST.full_name], timeout=10)
    assert taken is not None, "no hint came"
    found: dict[str, Any] = json.loads(taken[1])
    return found


def test_an_accepted_message_is_found_by_keyword_when_the_answer_comes(
    client: httpx.Client, database: Database
) -> None:
    answer = client.post("/v1/messages", json=body(said(1, "The boiler is repaired.")))
    assert answer.status_code == 202
    assert answer.json() == {
        "accepted": 1,
        "duplicates": 0,
        "kept_out": 0,
        "request_id": answer.headers["x-request-id"],
    }
    with database.tenant(TENANT) as connection:
        found = connection.scalars(
            text("SELECT external_id FROM messages WHERE tsv @@ to_tsquery('english', 'boilers & repair')")
        )
        assert list(found) == ["m1"]


def test_many_senders_of_the_same_messages_store_each_once(client: httpx.Client, database: Database) -> None:
    def send(shift: int) -> int:
        answer = client.post("/v1/messages", json=body(*(said(n) for n in range(shift, shift + 20))))
        assert answer.status_code == 202, answer.text
        return int(answer.json()["accepted"])

    with ThreadPoolExecutor(8) as senders:
        accepted = sum(senders.map(send, [n % 10 for n in range(40)]))
    assert accepted == len(stored(database)) == 29


def test_the_request_id_goes_with_the_hint_and_stands_on_the_work(
    client: httpx.Client, database: Database, hints: redis_client.Redis
) -> None:
    answer = client.post("/v1/messages", json=body(), headers={"X-Request-ID": "bot-7/41"})
    assert answer.json()["request_id"] == answer.headers["x-request-id"] == "bot-7/41"
    with database.tenant(TENANT) as connection:
        work = connection.execute(text("SELECT kind, key, trace_id FROM jobs")).one()
    assert tuple(work) == ("ingest", CHAT, "bot-7/41")
    sent = hint(hints)
    assert sent["headers"]["task"] == "backscroll.ingest"
    assert sent["headers"]["request_id"] == "bot-7/41"


def test_an_id_that_could_be_mistaken_is_replaced(client: httpx.Client) -> None:
    for given in ("two words", "x" * 129, 'a"b', ""):
        answer = client.get("/healthz", headers={"X-Request-ID": given})
        assert len(answer.headers["x-request-id"]) == 32


def test_another_tenants_messages_are_refused(client: httpx.Client, database: Database) -> None:
    problem = problem_of(client.post("/v1/messages", json=body() | {"tenant": "other"}), 422)
    assert problem["field"] == "tenant"
    assert client.post("/v1/messages", json=body() | {"tenant": TENANT}).status_code == 202


def test_the_victim_of_a_deadlock_is_tried_again_unseen_by_its_sender(
    client: httpx.Client, database: Database, postgres: EmbeddedPostgres, database_name: str
) -> None:
    client.post("/v1/messages", json=body(said(1)))
    insert = """
        INSERT INTO messages (tenant_id, chat_id, external_id, sender_id, role, content, token_count, sent_at)
        VALUES (%s, %s, %s, 'test:rival', 'user', 'mine', 1, now())
    """
    answers: list[httpx.Response] = []
    with psycopg.connect(postgres.superuser_dsn(database_name)) as rival:
        # Given somebody who has stored m3 and not committed
        rival.execute(insert, [TENANT, CHAT, "m3"])
        # When the API stores m2, waits for m3, and the other one wants m2
        sending = threading.Thread(
            target=lambda: answers.append(client.post("/v1/messages", json=body(said(2), said(3))))
        )
        sending.start()
        with psycopg.connect(postgres.superuser_dsn(database_name), autocommit=True) as observer:
            while not observer.execute("SELECT 1 FROM pg_locks WHERE NOT granted").fetchone():
                time.sleep(0.01)
        rival.execute(insert, [TENANT, CHAT, "m2"])
        rival.rollback()
        sending.join()
    # Then both messages are there
    assert answers[0].status_code == 202, answers[0].text
    assert answers[0].json()["accepted"] == 2
    assert stored(database) == ["m1", "m2", "m3"]
    with database.tenant(TENANT) as connection:
        assert set(connection.scalars(text("SELECT sender_id FROM messages"))) == {"test:ann"}


def test_large_batches_that_come_at_once_are_all_accepted_and_hold_up_nobody(
    client: httpx.Client, database: Database
) -> None:
    messages = batch("devanagari", 256 * 1024)

    def send(number: int) -> int:
        return client.post("/v1/messages", json=body(*messages, chat=f"test:{number}")).status_code

    with ThreadPoolExecutor(8) as senders:
        answers = [senders.submit(send, number) for number in range(8)]
        small = client.post("/v1/messages", json=body(chat="test:small"))
        assert (small.status_code, client.get("/readyz").status_code) == (202, 200)
        assert [answer.result() for answer in answers] == [202] * 8
    with database.tenant(TENANT) as connection:
        sizes = connection.scalars(
            text("SELECT octet_length(content) FROM messages WHERE chat_id = 'test:0'")
        )
        assert sorted(sizes) == sorted(len(each["content"].encode()) for each in messages)


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
