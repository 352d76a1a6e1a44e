"""What a platform sends is stored once, as what it is, and what it sends again after a change changes nothing."""

import random
from collections import Counter
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from sqlalchemy import text

from pipeline.erasure import forget
from pipeline.store.connections.database import Database
from schemas.settings import Settings
from tests.conftest import SESSION_POLICY, TENANT
from tests.events.conftest import COUNTS, PAYLOADS, cases, require
from tests.harness.pipeline import run

PLATFORMS = sorted(path.stem for path in PAYLOADS.glob("*.json"))
Kept = dict[str, list[list[Any]]]
NEW_TEXT = "korrigiert · 更正 · исправлено"
MESSAGES = "SELECT chat_id, external_id, sender_id, content FROM messages ORDER BY 1, 2"
KEPT = {"messages": MESSAGES, "edits that wait": "SELECT chat_id, content FROM pending_changes ORDER BY 1, 2"}
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


def send(client: httpx.Client, platform: str, payload: Any) -> dict[str, Any]:
    """Hand over what a platform sent; what was answered."""
    answer = client.post(f"/v1/events/{platform}", json=payload)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    assert found["broken"] == []
    return found


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
        # which of its ids a platform names is the same whatever was changed: two with members, moves and direct chats
        (edit_and_delete, KEPT, ["baileys", "telegram"]),
        (move, KEPT, ["telegram"]),
        (forget_people, PEOPLE, ["baileys", "telegram"]),
        (forget_chats, CHATS, ["baileys"]),
    ],
    ids=["edited and deleted", "moved", "people forgotten", "chats forgotten"],
)
def test_what_is_sent_again_is_as_it_was_changed(
    client: httpx.Client,
    database: Database,
    settings: Settings,
    change: Callable[[httpx.Client, Kept, Callable[[], None]], None],
    queries: dict[str, str],
    platforms: list[str],
) -> None:
    handler = forget.forgetter(database, SESSION_POLICY)

    def work() -> None:
        run(database, "forget", handler)

    # Given all that platforms send, and then a change of all of it
    sent = [(each, payload) for each in platforms for case in cases(each) for payload in case["send"]]
    for platform, payload in sent:
        if send(client, platform, payload)["moves"]:
            work()
    stored = kept(database, CHATS)
    change(client, stored, work)
    work()
    before = kept(database, queries)
    assert before["messages"] != stored["messages"]
    # When each of it is sent once more, in the other order; but people come and go in one
    for platform, payload in sent if change is forget_people else reversed(sent):
        if send(client, platform, payload)["moves"]:
            work()
    # Then nothing of it is back, twice or as it was
    assert kept(database, queries) == before


def totals(answers: list[dict[str, Any]]) -> dict[str, Any]:
    """The counts of answers together, without those that are 0."""
    counts: Counter[str] = Counter()
    kinds: Counter[str] = Counter()
    for answer in answers:
        counts.update({name: answer[name] for name in COUNTS})
        kinds.update(answer["not_kept"])
    found: dict[str, Any] = {name: count for name, count in counts.items() if count}
    return found | ({"not_kept": dict(kinds)} if kinds else {})


@pytest.mark.parametrize("platform", PLATFORMS)
def test_what_is_sent_is_stored_as_it_is(client: httpx.Client, database: Database, platform: str) -> None:
    for case in cases(platform):
        answers = [send(client, platform, payload) for payload in case["send"]]
        assert totals(answers) == case["answer"], case["name"]
        require(database, case)
    # and sending again what the next story does not send in any order changes nothing
    for case in (case for case in cases(platform) if case.get("in_order")):
        again = [send(client, platform, payload) for payload in case["send"]]
        assert totals(again).get("accepted", 0) == 0, case["name"]
        require(database, case)


@pytest.mark.parametrize("platform", PLATFORMS)
def test_shuffled_payloads_are_stored_once(client: httpx.Client, database: Database, platform: str) -> None:
    some = [case for case in cases(platform) if not case.get("in_order")]
    payloads = [payload for case in some for payload in case["send"]] * 2
    random.Random(36).shuffle(payloads)
    for payload in payloads:
        send(client, platform, payload)
    for case in some:
        require(database, case)
