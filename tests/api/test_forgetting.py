"""What people may ask of whoever remembers them, over HTTP."""

import json
from urllib.parse import quote

import httpx

from pipeline.store.connections.database import Database
from schemas.settings import Settings
from tests.api.conftest import CHAT, body, problem_of, said
from tests.conftest import TENANT
from tests.harness.pipeline import forget_all, rows

SLASHED = "matrix:!house/garden:example.org"
IN_PATH = quote(SLASHED, safe="")


def contents(database: Database) -> list[str]:
    return [row[0] for row in rows(database, "SELECT content FROM messages ORDER BY content")]


def test_a_user_is_forgotten_and_the_receipt_says_when_it_is_done(
    client: httpx.Client, database: Database, settings: Settings
) -> None:
    client.post("/v1/messages", json=body(said(1, "mine"), said(2, "his", sender_id="test:bob")))
    begun = client.post("/v1/forget", json={"kind": "user", "sender_id": "test:ann"})
    assert begun.status_code == 202
    receipt = begun.json()
    assert receipt["finished_at"] is None
    look = f"/v1/forget/{receipt['id']}"
    forget_all(database)
    done = client.get(look).json()
    assert (done["counts"]["messages"], done["given_up"], done["finished_at"] is None) == (1, None, False)
    assert "ann" not in json.dumps(done)
    assert contents(database) == ["his"]
    assert client.post("/v1/messages", json=body(said(1, "mine"))).json()["kept_out"] == 1


def test_a_forgetting_that_was_given_up_says_so(client: httpx.Client, database: Database) -> None:
    receipt = client.post("/v1/forget", json={"kind": "chat", "chat_id": CHAT}).json()
    rows(database, "UPDATE jobs SET dead_at = now(), due_at = NULL, last_error = 'no luck'")
    assert client.get(f"/v1/forget/{receipt['id']}").json()["given_up"] == "no luck"


def test_a_tenant_is_forgotten_when_its_name_is_said_again(
    client: httpx.Client, database: Database, settings: Settings
) -> None:
    client.post("/v1/messages", json=body(said(1, "mine")))
    for wrong in ({}, {"confirm": "another"}, {"confirm": ""}, {"confirm": None}):
        problem = problem_of(client.post("/v1/forget", json={"kind": "tenant"} | wrong), 422)
        assert problem["field"] == "confirm"
    forget_all(database)
    assert contents(database) == ["mine"]
    assert client.post("/v1/forget", json={"kind": "tenant", "confirm": TENANT}).status_code == 202
    forget_all(database)
    assert contents(database) == []
    other = {"kind": "chat", "chat_id": CHAT, "confirm": CHAT}
    assert client.post("/v1/forget", json=other).status_code == 422


def test_an_export_is_streamed_line_by_line(client: httpx.Client) -> None:
    many = [said(n, f"number {n}") for n in range(60)]
    client.post("/v1/messages", json=body(*many))
    context = client.post(
        "/v1/context", json={"chat_id": CHAT, "query": "which number?", "user_id": "test:ann"}
    ).json()
    with client.stream("GET", "/v1/users/test:ann/export") as answer:
        assert answer.headers["content-type"].startswith("application/x-ndjson")
        records = [json.loads(line) for line in answer.iter_lines()]
    assert len([r for r in records if r["record"] == "message"]) == 60
    assert [r["context_id"] for r in records if r["record"] == "query"] == [context["context_id"]]
    assert client.get("/v1/users/nobody/export").text == ""


def test_a_chats_id_may_hold_slashes_on_every_route(client: httpx.Client, database: Database) -> None:
    slashed = said(1) | {"external_id": "$a/b"}
    client.post("/v1/messages", json=body(slashed, chat=SLASHED))
    for external in ("$a/b", "$a%2Fb"):
        edited = client.patch(f"/v1/messages/{IN_PATH}/{external}", json={"content": external})
        assert (edited.status_code, edited.json()["outcome"]) == (202, "edited")
        assert contents(database) == [external]
    assert client.put(f"/v1/chats/{IN_PATH}/memory", json={"memory": False}).status_code == 200
    assert rows(database, "SELECT chat_id, memory FROM chats") == [(SLASHED, False)]
    assert client.put("/v1/users/irc:a%2fb/memory", json={"memory": False}).status_code == 200
    slashed |= {"sender_id": "irc:a/b", "external_id": "c"}
    assert client.post("/v1/messages", json=body(slashed, chat=SLASHED)).json()["kept_out"] == 1
    assert client.get("/v1/users/irc:a%2Fb/export").status_code == 200
    # nothing is to be had by a way around
    problem_of(client.put(f"/v1/chats/{SLASHED}/memory", json={"memory": False}), 404)
    assert client.delete(f"/v1/messages/{IN_PATH}/$a%2Fb").json()["outcome"] == "deleted"
    assert contents(database) == []


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
    deleted = client.delete(f"/v1/messages/{CHAT}/m2")
    assert (deleted.status_code, deleted.json()["outcome"]) == (200, "deleted")
    assert client.post("/v1/messages", json=body(said(2, "Да"))).json()["kept_out"] == 1
    subject |= {"external_id": external_id}
    assert client.post("/v1/forget", json=subject).json()["seen"] is True


SUPER = "test:supergroup"


def test_a_group_that_became_a_supergroup_is_asked_under_both_ids(
    client: httpx.Client, database: Database
) -> None:
    client.post("/v1/messages", json=body(said(1, "the plumber is called Beatriz")))
    begun = client.post(f"/v1/chats/{CHAT}/rename", json={"to": SUPER})
    assert begun.status_code == 202
    # told twice, it is one
    assert client.post(f"/v1/chats/{CHAT}/rename", json={"to": SUPER}).json()["id"] == begun.json()["id"]
    # what is still under way is stored where the chat is now
    late = client.post("/v1/messages", json=body(said(1), said(2))).json()
    assert (late["accepted"], late["duplicates"]) == (1, 1)
    forget_all(database)
    assert client.get(f"/v1/forget/{begun.json()['id']}").json()["counts"]["messages"] == 1
    for chat in (CHAT, SUPER):
        asked = {"chat_id": chat, "query": "what is the plumber called?"}
        assert "Beatriz" in client.post("/v1/context", json=asked).json()["text"]
    for chat in (CHAT, SUPER):
        assert len(client.get("/v1/queries", params={"chat_id": chat}).json()["queries"]) == 2
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
    problem_of(client.post("/v1/chats/test:nowhere/rename", json={"to": SUPER}), 404)
