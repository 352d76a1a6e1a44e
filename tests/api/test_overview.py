"""A chat and its sessions are shown, and an id that was never seen is told as such."""

import httpx

from pipeline.store.connections.database import Database
from schemas.settings import Settings
from tests.api.conftest import CHAT, body, problem_of, said
from tests.commands.conftest import Workers


def test_a_chat_is_shown_with_its_sessions_or_guessed(
    client: httpx.Client, database: Database, settings: Settings
) -> None:
    # Given a chat that is older, and one with two sessions
    client.post("/v1/messages", json=body(said(1, sent_at="2026-01-01T00:00:00Z"), chat="test:old"))
    client.post("/v1/messages", json=body(said(1), said(2), said(3, sent_at="2026-03-04T18:00:00Z")))
    Workers(database, settings).finish()
    shown = client.get(f"/v1/chats/{CHAT}").json()
    assert (shown["chat_id"], shown["time_zone"], shown["memory"]) == (CHAT, "UTC", True)
    sessions = client.get(f"/v1/chats/{CHAT}/sessions").json()["sessions"]
    assert [session["message_count"] for session in sessions] == [1, 2]
    # and one that is not there is guessed at
    for path in ("/v1/chats/test:huose", "/v1/chats/test:huose/sessions"):
        assert f"did you mean {CHAT} or test:old?" in problem_of(client.get(path), 404)["detail"]


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
    assert seen("put", "/v1/users/ann/senders/test:ann")
    assert not seen("put", "/v1/users/ann/senders/test:anm2")
    assert not seen("post", "/v1/users/ann/merge", {"into": "anna"})
    assert seen("post", "/v1/users/ann/merge", {"into": "anna"})
    assert seen("post", "/v1/forget", {"kind": "user", "sender_id": "test:ann"})
    assert not seen("post", "/v1/forget", {"kind": "user", "sender_id": "test:bo"})
    assert seen("post", "/v1/forget", {"kind": "user", "sender_id": "test:bo"})
    assert not seen("post", "/v1/forget", {"kind": "chat", "chat_id": "test:no"})
    assert seen("post", "/v1/forget", {"kind": "tenant", "confirm": "default"})
