"""Batches of any size and script are accepted whole, one after the other and many at once."""

from concurrent.futures import ThreadPoolExecutor

import httpx
from sqlalchemy import text

from ops.dev.scripts import batch
from pipeline.store.connections.database import Database
from tests.api.conftest import body
from tests.conftest import TENANT

MEGABYTE = 1024 * 1024
AT_ONCE = 16


def sizes_stored(database: Database, chat: str) -> list[int]:
    """The bytes of a chat's texts, in order."""
    statement = text("SELECT octet_length(content) FROM messages WHERE chat_id = :chat ORDER BY id")
    with database.tenant(TENANT) as connection:
        return list(connection.scalars(statement, {"chat": chat}))


def test_batches_that_come_at_once_are_all_accepted_and_hold_up_nobody(
    client: httpx.Client, database: Database
) -> None:
    messages = batch("devanagari", MEGABYTE // 4)

    def send(number: int) -> int:
        return client.post("/v1/messages", json=body(*messages, chat=f"test:{number}")).status_code

    with ThreadPoolExecutor(AT_ONCE) as senders:
        answers = [senders.submit(send, number) for number in range(AT_ONCE)]
        small = client.post("/v1/messages", json=body(chat="test:small"))
        assert (small.status_code, client.get("/readyz").status_code) == (202, 200)
        assert [answer.result() for answer in answers] == [202] * AT_ONCE
    for number in range(AT_ONCE):
        assert len(sizes_stored(database, f"test:{number}")) == len(messages)
