"""What a bot relies on when it links people, writes memories by hand, and says who is in a chat."""

from typing import Any
from uuid import UUID

import httpx
import pytest
import redis as redis_client

from tests.api.conftest import body, problem_of, said
from tests.waiting import until
from workers.queues import OF_KIND


@pytest.fixture(scope="module")
def house(standing_client: httpx.Client) -> httpx.Client:
    """An HTTP API that stores a talk of Ann and Bob."""
    standing_client.post("/v1/messages", json=body(said(1), said(2, sender_id="test:bob"), chat="test:users"))
    return standing_client


def outcome(answer: httpx.Response, status: int = 200) -> Any:
    assert answer.status_code == status, answer.text
    return answer.json()["outcome"]


def test_people_are_linked_merged_shown_and_unlinked(house: httpx.Client) -> None:
    assert outcome(house.put("/v1/users/ann/senders/test:ann")) == "linked"
    assert outcome(house.put("/v1/users/ann/senders/test:ann")) == "unchanged"
    assert outcome(house.put("/v1/users/anna/senders/matrix:@ann/home")) == "linked"
    assert outcome(house.post("/v1/users/anna/merge", json={"into": "ann"})) == "merged"
    user = house.get("/v1/users/matrix:@ann%3Ahome").json()
    assert user["senders"] == []
    user = house.get("/v1/users/test:ann").json()
    assert (user["user_id"], user["senders"]) == ("ann", ["anna", "matrix:@ann/home", "test:ann"])
    assert (user["chats"], user["remembered"]) == (1, True)
    for sender in ("anna", "matrix:@ann/home", "test:ann"):
        assert outcome(house.delete(f"/v1/users/ann/senders/{sender}")) == "unlinked"
        assert outcome(house.delete(f"/v1/users/ann/senders/{sender}")) == "unchanged"


def test_memories_are_written_by_hand_listed_and_deleted(house: httpx.Client) -> None:
    tea = {"scope": "user", "user_id": "test:bob", "content": "Prefers tea."}
    first = house.post("/v1/memories", json=tea)
    assert outcome(first, 201) == "new"
    assert outcome(house.post("/v1/memories", json=tea)) == "known"
    assert outcome(house.post("/v1/memories", json=tea | {"content": "Has a boat."}), 201) == "new"
    house.put("/v1/users/bob/senders/test:bob")
    listed = house.get("/v1/memories", params={"user_id": "bob"}).json()["memories"]
    assert [m["content"] for m in listed] == ["Has a boat.", "Prefers tea."]
    page = house.get("/v1/memories", params={"user_id": "bob", "limit": 1, "after": listed[0]["id"]}).json()
    assert [m["id"] for m in page["memories"]] == [first.json()["id"]]
    assert outcome(house.delete(f"/v1/memories/{first.json()['id']}")) == "deleted"
    problem_of(house.delete(f"/v1/memories/{first.json()['id']}"), 404)


def test_memories_are_edited_promoted_and_corrected(house: httpx.Client) -> None:
    porto = {
        "scope": "user",
        "user_id": "test:bob",
        "content": "Bob lives in Porto.",
        "learned_in": "test:users",
    }
    path = f"/v1/memories/{house.post('/v1/memories', json=porto).json()['id']}"
    assert outcome(house.patch(path, json={"content": "Bob lives in Lisbon.", "importance": 9})) == "edited"
    corrected = house.post(f"{path}/correct", json={"content": "Bob lives in Faro."})
    assert outcome(corrected) == "corrected"
    right = f"/v1/memories/{corrected.json()['id']}"
    clash = problem_of(house.patch(path, json={"content": "bob lives in faro."}), 409)
    assert (clash["field"], "says this already" in clash["detail"]) == ("content", True)
    assert outcome(house.post(f"{right}/promote", json={"scope": "organization"})) == "promoted"
    (found,) = house.get("/v1/memories", params={"scope": "organization"}).json()["memories"]
    assert (found["content"], found["importance"]) == ("Bob lives in Faro.", 9)
    assert outcome(house.post(f"{right}/correct", json={})) == "retracted"
    for method, each in (("PATCH", right), ("POST", f"{right}/promote"), ("POST", f"{right}/correct")):
        sent = {"scope": "organization"} if "promote" in each else {"content": "x"}
        unknown = each.replace(corrected.json()["id"], str(UUID(int=1)))
        problem_of(house.request(method, unknown, json=sent), 404)


def test_members_are_told_and_shown(house: httpx.Client) -> None:
    there = house.get("/v1/chats/test:users/members").json()
    assert there["members"] == ["test:ann", "test:bob"]
    assert there["names"]["test:ann"] == ["Ann"]
    told = house.put("/v1/chats/test:users/members", json={"members": ["test:ann", "test:cy"]}).json()
    # who has never written has no name
    assert (told["members"], told["names"]) == (["test:ann", "test:cy"], {"test:ann": ["Ann"]})
    problem_of(house.put("/v1/chats/test:nowhere/members", json={"members": []}), 404)
    problem_of(house.get("/v1/chats/test:nowhere/members"), 404)


RULES = {"document_id": "rules/2026", "content": "# Rules\n\nThe boiler is serviced every May."}


def test_a_document_is_kept_cited_and_read(client: httpx.Client, hints: redis_client.Redis) -> None:
    queue = OF_KIND["embed"].full_name
    hints.delete(queue)
    first = client.post("/v1/documents", json=RULES)
    assert (first.status_code, first.json()["outcome"], first.json()["chunks"]) == (201, "new", 1)
    again = client.post("/v1/documents", json=RULES)
    assert (again.status_code, again.json()["outcome"]) == (200, "unchanged")
    until(lambda: hints.llen(queue) == 1, "one hint")
    client.post("/v1/messages", json=body())
    asked = {"chat_id": "test:house", "query": "When is the boiler serviced?"}
    assert "Doc rules/2026/Chunk 0:\n  # Rules\n" in client.post("/v1/context", json=asked).json()["text"]
    read = client.get("/v1/documents/rules/2026").json()
    assert read["chunks"] == [{"chunk_index": 0, "content": RULES["content"]}]
    assert client.get("/v1/documents", params={"after": "rules/2026"}).json() == {"documents": []}
    assert client.delete("/v1/documents/rules/2026").json()["outcome"] == "removed"
    for method in ("GET", "DELETE"):
        problem_of(client.request(method, "/v1/documents/rules/2026"), 404)
    hints.delete(queue)
