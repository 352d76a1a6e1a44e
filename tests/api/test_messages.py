"""What a bot relies on when it hands messages over."""

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import psycopg
import redis as redis_client
from sqlalchemy import text

from ops.local.embedded.postgres import EmbeddedPostgres
from pipeline.store.connections.database import Database
from tests.api.conftest import CHAT, body, problem_of, said
from tests.conftest import TENANT
from tests.harness.pipeline import rows
from tests.scripts import batch
from tests.waiting import SECONDS, ended, until
from workers.queues import INGEST

WAITING = "SELECT pid FROM pg_locks WHERE NOT granted"


def stored(database: Database) -> list[str]:
    return [row[0] for row in rows(database, "SELECT external_id FROM messages ORDER BY external_id")]


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
    # what is said to be another tenant's is refused
    assert (
        problem_of(client.post("/v1/messages", json=body() | {"tenant": "other"}), 422)["field"] == "tenant"
    )
    with database.tenant(TENANT) as connection:
        found = connection.scalars(
            text("SELECT external_id FROM messages WHERE tsv @@ to_tsquery('english', 'boilers & repair')")
        )
        assert list(found) == ["m1"]


def test_the_request_id_goes_with_the_hint_and_stands_on_the_work(
    client: httpx.Client, database: Database, hints: redis_client.Redis
) -> None:
    answer = client.post("/v1/messages", json=body(), headers={"X-Request-ID": "bot-7/41"})
    assert answer.json()["request_id"] == answer.headers["x-request-id"] == "bot-7/41"
    (work,) = rows(database, "SELECT kind, key, trace_id FROM jobs")
    assert tuple(work) == ("ingest", CHAT, "bot-7/41")
    sent = hint(hints)
    assert sent["headers"]["task"] == "backscroll.ingest"
    assert sent["headers"]["request_id"] == "bot-7/41"


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
            until(lambda: observer.execute(WAITING).fetchone(), "the API waits for m3")
        rival.execute(insert, [TENANT, CHAT, "m2"])
        rival.rollback()
        ended(sending)
    # Then both messages are there
    assert answers[0].status_code == 202, answers[0].text
    assert answers[0].json()["accepted"] == 2
    assert stored(database) == ["m1", "m2", "m3"]
    with database.tenant(TENANT) as connection:
        assert set(connection.scalars(text("SELECT sender_id FROM messages"))) == {"test:ann"}


def test_large_batches_that_come_at_once_are_all_accepted_and_hold_up_nobody(
    client: httpx.Client, database: Database
) -> None:
    messages = batch("devanagari", 64 * 1024)

    def send(number: int) -> int:
        return client.post("/v1/messages", json=body(*messages, chat=f"test:{number}")).status_code

    with ThreadPoolExecutor(4) as senders:
        answers = [senders.submit(send, number) for number in range(4)]
        small = client.post("/v1/messages", json=body(chat="test:small"))
        assert (small.status_code, client.get("/readyz").status_code) == (202, 200)
        assert [answer.result(SECONDS) for answer in answers] == [202] * 4
    with database.tenant(TENANT) as connection:
        sizes = connection.scalars(
            text("SELECT octet_length(content) FROM messages WHERE chat_id = 'test:0'")
        )
        assert sorted(sizes) == sorted(len(each["content"].encode()) for each in messages)


def test_a_message_that_waits_for_its_chat_holds_up_no_other_and_outlives_its_connection(
    client: httpx.Client, database: Database, postgres: EmbeddedPostgres, database_name: str
) -> None:
    another = "test:garden"
    for chat in (CHAT, another):
        assert client.post("/v1/messages", json=body(said(1), chat=chat)).status_code == 202
    url = postgres.superuser_dsn(database_name)
    with (
        ThreadPoolExecutor(1) as sender,
        psycopg.connect(url) as rival,
        psycopg.connect(url, autocommit=True) as observer,
    ):
        # Given a chat that somebody else keeps locked, and a message of it
        rival.execute("SELECT FROM chats WHERE chat_id = %s FOR UPDATE", [CHAT])
        waiting = sender.submit(client.post, "/v1/messages", json=body(said(50)))
        waits = until(lambda: observer.execute(WAITING).fetchone(), "the message waits for its chat")
        # When messages of another chat come, they are accepted before it
        for number in range(60, 70):
            assert client.post("/v1/messages", json=body(said(number), chat=another)).status_code == 202
        assert not waiting.done()
        # When its connection ends on the way, it is accepted all the same once the chat is free
        observer.execute("SELECT pg_terminate_backend(%s, 5000)", [waits[0]])
        rival.rollback()
        assert waiting.result(SECONDS).json()["accepted"] == 1
    assert stored(database).count("m50") == 1
