"""Chats that get another id, or are removed, over HTTP."""

import httpx

from pipeline.store.connections.database import Database
from schemas.settings import Settings
from tests.api.conftest import CHAT, body, problem_of, said
from tests.api.test_forgetting import do_forget

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
