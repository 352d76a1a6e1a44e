"""What a platform sends once more, long after it was edited, deleted, forgotten or moved, changes nothing any more."""

from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from sqlalchemy import text

from pipeline.erasure import forget
from pipeline.ingest.policy import SessionPolicy
from pipeline.jobs import runner
from pipeline.jobs.runner import Policy
from pipeline.store.connections.database import Database
from schemas.settings import Settings
from tests.conftest import TENANT
from tests.events.conftest import PAYLOADS, cases

PLATFORMS = sorted(path.stem for path in PAYLOADS.glob("*.json"))
Kept = dict[str, list[list[Any]]]
NEW_TEXT = "korrigiert · 更正 · исправлено"
MESSAGES = "SELECT chat_id, external_id, sender_id, content FROM messages ORDER BY 1, 2"
KEPT = {
    "messages": MESSAGES,
    "edits that wait": "SELECT chat_id, content FROM pending_changes ORDER BY 1, 2",
}
PEOPLE = KEPT | {
    "members": "SELECT chat_id, sender_id FROM chat_members WHERE sender_id <> '' ORDER BY 1, 2",
    "direct chats": "SELECT chat_id, title FROM chats WHERE kind = 'direct' ORDER BY 1",
}
CHATS = PEOPLE | {"chats": "SELECT chat_id, title, moved_to FROM chats ORDER BY 1"}


def kept(database: Database, queries: dict[str, str]) -> Kept:
    with database.tenant(TENANT) as connection:
        return {
            name: [list(row) for row in connection.execute(text(query))] for name, query in queries.items()
        }


def send(client: httpx.Client, platform: str, payload: Any) -> bool:
    """Hand over what a platform sent; tell whether a chat is to be moved."""
    answer = client.post(f"/v1/events/{platform}", json=payload)
    assert answer.status_code == 200, answer.text
    assert answer.json()["broken"] == [], answer.text
    return bool(answer.json()["moves"])


def in_path(*parts: str) -> str:
    return "/".join(quote(part, safe="") for part in parts)


def edit_and_delete(client: httpx.Client, stored: Kept, work: Callable[[], None]) -> None:
    """By turns, so that each platform has both."""
    for number, (chat_id, external_id, *_) in enumerate(stored["messages"]):
        url = f"/v1/messages/{in_path(chat_id, external_id)}"
        if number % 2:
            assert client.delete(url).json()["outcome"] == "deleted"
        else:
            given = {"content": NEW_TEXT, "edited_at": "2026-10-01T00:00:00Z"}
            assert client.patch(url, json=given).json()["outcome"] == "edited"


def move(client: httpx.Client, stored: Kept, work: Callable[[], None]) -> None:
    for chat_id in sorted({row[0] for row in stored["messages"]}):
        client.post(f"/v1/chats/{in_path(chat_id)}/rename", json={"to": f"neu:新-{chat_id}"})
        work()


def forget_people(client: httpx.Client, stored: Kept, work: Callable[[], None]) -> None:
    senders = {row[2] for row in stored["messages"]} | {row[1] for row in stored["members"]}
    for sender in sorted(senders):
        assert client.post("/v1/forget", json={"kind": "user", "sender_id": sender}).status_code == 202


def forget_chats(client: httpx.Client, stored: Kept, work: Callable[[], None]) -> None:
    for chat_id in sorted({row[0] for row in stored["chats"]}):
        client.post("/v1/forget", json={"kind": "chat", "chat_id": chat_id})


@pytest.mark.parametrize(
    ("change", "queries", "platforms"),
    [
        (edit_and_delete, KEPT, PLATFORMS),
        (move, KEPT, PLATFORMS),
        # an edit of Standard Webhooks does not say whose message it is
        (forget_people, PEOPLE, [each for each in PLATFORMS if each != "standard"]),
        (forget_chats, CHATS, PLATFORMS),
    ],
    ids=["edited and deleted", "moved", "people forgotten", "chats forgotten"],
)
def test_what_is_sent_again_is_as_it_was_changed(
    client: httpx.Client,
    database: Database,
    settings: Settings,
    policy: Policy,
    change: Callable[[httpx.Client, Kept, Callable[[], None]], None],
    queries: dict[str, str],
    platforms: list[str],
) -> None:
    handler = forget.forgetter(database, SessionPolicy.of(settings))

    def work() -> None:
        while runner.run(database, "forget", handler, policy).claimed:
            pass

    # Given all that platforms send, and then a change of all of it
    sent = [(each, payload) for each in platforms for case in cases(each) for payload in case["send"]]
    for platform, payload in sent:
        if send(client, platform, payload):
            work()
    stored = kept(database, CHATS)
    change(client, stored, work)
    work()
    before = kept(database, queries)
    assert before["messages"] != stored["messages"]
    # When each of it is sent once more, in the other order; but people come and go in one
    for platform, payload in sent if change is forget_people else reversed(sent):
        if send(client, platform, payload):
            work()
    # Then nothing of it is back, twice or as it was
    assert kept(database, queries) == before


def test_a_message_that_comes_again_does_not_bring_back_its_group_s_former_name(
    client: httpx.Client, database: Database
) -> None:
    def group(number: int, title: str) -> dict[str, Any]:
        chat, sender = {"id": -77, "type": "group", "title": title}, {"id": 7, "first_name": "Ayşe"}
        said = {"message_id": number, "date": 1777300000 + number, "text": f"№ {number}"}
        return {"update_id": number, "message": said | {"chat": chat, "from": sender}}

    # Given a group that was renamed
    for update in (group(1, "Ekip"), group(2, "新しいチーム")):
        send(client, "telegram", update)
    # When a message from before is sent once more
    send(client, "telegram", group(1, "Ekip"))
    # Then the group is called as it is
    assert [row[1] for row in kept(database, CHATS)["chats"]] == ["新しいチーム"]


def test_who_has_left_does_not_come_back_when_their_coming_is_told_once_more(
    client: httpx.Client, database: Database
) -> None:
    def moved(number: int, what: dict[str, Any]) -> dict[str, Any]:
        chat, sender = {"id": -78, "type": "group", "title": "Тайна · 秘密"}, {"id": 7, "first_name": "Ayşe"}
        said = {"message_id": number, "date": 1777300000 + number, "chat": chat, "from": sender}
        return {"update_id": number, "message": said | what}

    person = {"id": 8, "is_bot": False, "first_name": "Олена"}
    came, went = {"new_chat_members": [person]}, {"left_chat_member": person}

    def members() -> set[str]:
        return {row[1] for row in kept(database, PEOPLE)["members"]}

    # Given somebody who came and went
    for update in (moved(1, {"text": "hallo"}), moved(2, came), moved(3, went)):
        send(client, "telegram", update)
    # When their coming is told once more, they stay away
    send(client, "telegram", moved(2, came))
    assert members() == {"telegram:7"}
    # Until they come again
    send(client, "telegram", moved(4, came))
    assert members() == {"telegram:7", "telegram:8"}
