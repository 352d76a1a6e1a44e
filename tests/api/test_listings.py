"""Lists over HTTP: chats, sessions, messages, what was asked, and entities."""

from typing import Any

import httpx

from pipeline.ingest.sessionize import SessionPolicy
from pipeline.store.connections.database import Database
from schemas.settings import Settings
from tests.api.conftest import CHAT, body, problem_of, said
from tests.conftest import POLICY
from tests.harness.contexts import do_all
from tests.harness.learning import Talk, tell
from tests.waiting import rounds


def pages(client: httpx.Client, path: str, key: str, cursor: str, **given: Any) -> list[dict[str, Any]]:
    """Everything that is listed, read page by page."""
    found: list[dict[str, Any]] = []
    for _ in rounds(f"{path} has an end"):
        answer = client.get(path, params=given | ({"after": found[-1][cursor]} if found else {}))
        assert answer.status_code == 200, answer.text
        page = answer.json()[key]
        if not page:
            return found
        assert len(page) <= given["limit"]
        found += page
    return found


def test_chats_sessions_and_questions_are_read_page_by_page(
    client: httpx.Client, database: Database, settings: Settings
) -> None:
    # Given three chats with two sessions each, and five questions
    for chat in ("test:c", "test:a", "test:b"):
        talk = [
            said(day * 10 + n, f"line {n}", sent_at=f"2026-03-0{day}T18:0{n}:00Z")
            for day in (2, 3)
            for n in range(4)
        ]
        assert client.post("/v1/messages", json=body(*talk, chat=chat)).status_code == 202
    do_all(database, SessionPolicy.of(settings), POLICY)
    for number in range(5):
        asked = {"chat_id": "test:a" if number < 3 else "test:b", "query": f"line {number}?", "user_id": 7}
        assert client.post("/v1/context", json=asked).status_code == 200
    # Then chats come by their ids
    listed = pages(client, "/v1/chats", "chats", "chat_id", limit=2)
    assert [(chat["chat_id"], chat["sessions"]) for chat in listed] == [
        ("test:a", 2),
        ("test:b", 2),
        ("test:c", 2),
    ]
    assert client.get("/v1/chats", params={"limit": 1}).json()["total"] == 3
    # sessions the latest first, of all chats or of one
    everything = pages(client, "/v1/sessions", "sessions", "id", limit=4)
    assert len(everything) == len({session["id"] for session in everything}) == 6
    times = [(session["ended_at"], session["id"]) for session in everything]
    assert times == sorted(times, reverse=True)
    own = pages(client, "/v1/sessions", "sessions", "id", limit=1, chat_id="test:b", status="summarized")
    assert [session["chat_id"] for session in own] == ["test:b"] * 2
    assert pages(client, "/v1/sessions", "sessions", "id", limit=1, status="failed") == []
    # and so do questions
    asked_of_all = pages(client, "/v1/queries", "queries", "context_id", limit=2)
    assert [one["query"] for one in asked_of_all] == [f"line {number}?" for number in (4, 3, 2, 1, 0)]
    assert {one["user_id"] for one in asked_of_all} == {"7"}
    of_one = pages(client, "/v1/queries", "queries", "context_id", limit=2, chat_id="test:b")
    assert [one["query"] for one in of_one] == ["line 4?", "line 3?"]
    # and a chat that is not there is guessed at
    shown = client.get("/v1/chats/test:a").json()
    assert (shown["chat_id"], shown["time_zone"], shown["memory"]) == ("test:a", "UTC", True)
    for path in ("/v1/chats/test:d", "/v1/chats/test:d/sessions"):
        assert "did you mean test:" in problem_of(client.get(path), 404)["detail"]


def test_messages_come_as_they_were_sent_before_any_worker_has_seen_them(client: httpx.Client) -> None:
    told = {
        "reply_to": "m1",
        "thread": "7",
        "metadata": {"note": "ж"},
        "agent_id": "bot",
        "role": "assistant",
    }
    for sent in (said(3, "three"), said(1, "один"), said(2, "二", session_key="order", **told)):
        assert client.post("/v1/messages", json=body(sent, chat="test:new")).status_code == 202
    path = "/v1/chats/test:new/messages"
    listed = client.get(path).json()["messages"]
    assert [message["content"] for message in listed] == ["один", "二", "three"]
    assert listed[1].items() >= {"external_id": "m2", "session_key": "order", **told}.items()
    assert (
        client.get(path, params={"limit": 2, "until": listed[2]["sent_at"]}).json()["messages"] == listed[:2]
    )
    assert client.get(path, params={"session_key": "order"}).json()["messages"] == listed[1:2]
    problem_of(client.get("/v1/chats/test:never/messages"), 404)
    for wrong in ({"limit": 1001}, {"until": "yesterday"}, {"sesion_key": "order"}):
        assert problem_of(client.get(path, params=wrong), 422)["field"] in wrong


def test_an_id_never_seen_is_told_and_what_was_asked_is_done_all_the_same(client: httpx.Client) -> None:
    client.post("/v1/messages", json=body(said(1)))

    def seen(method: str, path: str, sent: object = None) -> bool:
        answer = client.request(method, path, json=sent)
        assert answer.status_code in {200, 202}, answer.text
        return bool(answer.json()["seen"])

    off = {"memory": False}
    assert seen("put", "/v1/users/test:ann/memory", off)
    assert not seen("put", "/v1/users/test:anm/memory", off)
    # what was said of somebody once is known
    assert seen("put", "/v1/users/test:anm/memory", {"memory": True})
    assert seen("put", f"/v1/chats/{CHAT}/memory", off)
    assert not seen("put", "/v1/chats/test:huose/memory", off)
    assert not seen("put", "/v1/users/ann/senders/test:anm2")
    assert not seen("post", "/v1/users/ann/merge", {"into": "anna"})
    assert seen("post", "/v1/forget", {"kind": "user", "sender_id": "test:ann"})
    assert not seen("post", "/v1/forget", {"kind": "user", "sender_id": "test:bo"})
    assert not seen("post", "/v1/forget", {"kind": "chat", "chat_id": "test:no"})
    assert seen("post", "/v1/forget", {"kind": "tenant", "confirm": "default"})


def test_entities_are_listed_and_shown(
    client: httpx.Client, database: Database, rules: SessionPolicy
) -> None:
    tell(Talk(database, rules, POLICY))
    do_all(database, rules, POLICY)
    places = client.get("/v1/entities", params={"kind": "place"}).json()["entities"]
    assert {each["name"] for each in places} == {"Köln"}
    (koeln,) = client.get("/v1/entities/KÖLN").json()["entities"]
    assert (koeln["memories"], koeln["kind"], koeln["user_id"]) == (2, "place", None)
    (lena,) = client.get("/v1/entities/test:lena").json()["entities"]
    assert {each["relation"] for each in lena["related"]} == {"home", "partner"}
