"""What a bot relies on when a platform tells it that a message was edited or deleted."""

from typing import Any
from urllib.parse import quote

import httpx
import pytest
from sqlalchemy import text

from pipeline.store.connections.database import Database
from tests.api.conftest import CHAT, body, problem_of, said
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


@pytest.mark.parametrize("external_id", ["99", "消息/7"])
def test_a_deletion_says_whether_there_was_a_message(
    client: httpx.Client, database: Database, external_id: str
) -> None:
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


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({}, "content"),
        ({"content": "x" * 65_537}, "content"),
        ({"content": "x", "v": 2}, "v"),
    ],
)
def test_an_edit_that_cannot_be_taken_names_the_field(
    standing_client: httpx.Client, change: dict[str, Any], field: str
) -> None:
    problem = problem_of(standing_client.patch(f"/v1/messages/{CHAT}/m1", json=change), 422)
    assert problem["field"] == field


def test_ids_have_their_limits_in_paths_too(standing_client: httpx.Client) -> None:
    problem = problem_of(standing_client.delete(f"/v1/messages/{CHAT}/{'x' * 256}"), 422)
    assert problem["field"] == "external_id"
    problem_of(standing_client.delete(f"/v1/messages/{CHAT}"), 404)
