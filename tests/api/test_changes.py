"""What a bot relies on when a platform tells it that a message was edited or deleted."""

from urllib.parse import quote

import httpx
from sqlalchemy import text

from pipeline.store.connections.database import Database
from tests.api.conftest import CHAT, body, said
from tests.conftest import TENANT


def contents(database: Database) -> list[str]:
    with database.tenant(TENANT) as connection:
        return list(connection.scalars(text("SELECT content FROM messages ORDER BY external_id")))


def test_a_message_is_edited_and_deleted_by_its_platforms_id(
    client: httpx.Client, database: Database
) -> None:
    client.post("/v1/messages", json=body(said(1, "first"), said(2, "second")))
    edited = client.patch(f"/v1/messages/{CHAT}/m1", json={"content": "better", "edited_at": 1772471045})
    assert edited.status_code == 202
    assert edited.json() == {"outcome": "edited", "request_id": edited.headers["x-request-id"]}
    assert contents(database) == ["better", "second"]
    deleted = client.delete(f"/v1/messages/{CHAT}/m1")
    assert (deleted.status_code, deleted.json()["outcome"]) == (200, "deleted")
    assert contents(database) == ["second"]
    again = client.post("/v1/messages", json=body(said(1, "first"))).json()
    assert (again["accepted"], again["duplicates"], again["kept_out"]) == (0, 0, 1)


def test_a_deletion_says_whether_there_was_a_message(client: httpx.Client, database: Database) -> None:
    external_id = "消息/7"
    address = f"/v1/messages/{CHAT}/{quote(external_id, safe='')}"
    # Given a deletion that comes first, twice: nothing was there to delete
    assert [client.delete(address).json()["outcome"] for _ in range(2)] == ["kept_out"] * 2
    subject = {"kind": "message", "chat_id": CHAT, "external_id": external_id + "0"}
    assert client.post("/v1/forget", json=subject).json()["seen"] is False
    # Then the message is dropped when it comes
    stored = client.post(
        "/v1/messages", json=body(said(1, "Ой") | {"external_id": external_id}, said(2, "Да"))
    )
    assert (stored.json()["accepted"], stored.json()["kept_out"]) == (1, 1)
    assert contents(database) == ["Да"]
    assert client.delete(f"/v1/messages/{CHAT}/m2").json()["outcome"] == "deleted"
    subject |= {"external_id": external_id}
    assert client.post("/v1/forget", json=subject).json()["seen"] is True
