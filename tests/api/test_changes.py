"""What a bot relies on when a platform tells it that a message was edited or deleted."""

from urllib.parse import quote

import httpx
from sqlalchemy import text

from pipeline.store.connections.database import Database
from schemas.settings import Settings
from tests.api.conftest import CHAT, body, problem_of, said
from tests.api.test_forgetting import do_forget
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


SUPER = "test:supergroup"


def test_a_group_that_became_a_supergroup_loses_nothing(
    client: httpx.Client, database: Database, settings: Settings
) -> None:
    first = said(1, "the plumber is called Beatriz", external_id="1")
    client.post("/v1/messages", json=body(first))
    begun = client.post(f"/v1/chats/{CHAT}/rename", json={"to": SUPER})
    assert begun.status_code == 202
    # told twice, it is one
    assert client.post(f"/v1/chats/{CHAT}/rename", json={"to": SUPER}).json()["id"] == begun.json()["id"]
    # what is still under way is stored where the chat is now
    late = client.post("/v1/messages", json=body(first, said(2, external_id="2"))).json()
    assert (late["accepted"], late["duplicates"]) == (1, 1)
    client.post("/v1/messages", json=body(said(3, "welcome", external_id="1"), chat=SUPER))
    do_forget(database, settings)
    assert client.get(f"/v1/forget/{begun.json()['id']}").json()["counts"]["messages"] == 1
    for chat in (CHAT, SUPER):
        asked = {"chat_id": chat, "query": "what is the plumber called?"}
        assert "Beatriz" in client.post("/v1/context", json=asked).json()["text"]
    deleted = client.delete(f"/v1/messages/{CHAT}/1")
    assert deleted.json()["outcome"] == "deleted"
    assert "Beatriz" not in client.post("/v1/context", json=asked).json()["text"]
    # what is switched, or forgotten, is named by its id of now
    for problem in (
        client.put(f"/v1/chats/{CHAT}/memory", json={"memory": False}),
        client.post("/v1/forget", json={"kind": "chat", "chat_id": CHAT}),
        client.delete(f"/v1/chats/{CHAT}"),
    ):
        assert SUPER in problem_of(problem, 404)["detail"]


def test_what_must_end_first_is_told(client: httpx.Client) -> None:
    client.post("/v1/messages", json=body())
    client.post("/v1/forget", json={"kind": "user", "sender_id": "test:ann"})
    answer = client.post(f"/v1/chats/{CHAT}/rename", json={"to": SUPER})
    assert "forgotten" in problem_of(answer, 409)["detail"]
    assert int(answer.headers["retry-after"]) > 0
    assert problem_of(client.post(f"/v1/chats/{CHAT}/rename", json={"to": CHAT}), 422)["field"] == "to"
    assert problem_of(client.post(f"/v1/chats/{CHAT}/rename", json={"too": CHAT}), 422)
    problem_of(client.post("/v1/chats/test:nowhere/rename", json={"to": SUPER}), 404)
