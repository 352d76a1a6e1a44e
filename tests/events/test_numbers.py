"""A number that moved on: its former owner keeps what they said, and whoever has it next begins with nothing."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import permutations
from typing import Any

import httpx
import pytest
from sqlalchemy import text

from pipeline.erasure import forget
from pipeline.operations import daily_digests
from pipeline.people import identities
from pipeline.store.connections.database import Database
from schemas.digests import DailyDigestIn
from schemas.people import Subject
from schemas.settings import Settings
from tests.conftest import TENANT
from tests.events.conftest import AT, work

OLD, NEW = "351911000", "351922000"
FIRST, LATER, OTHER = "O gato chama-se Miró.", "ミロは六歳です", "Я ищу велосипед."


@dataclass(frozen=True)
class Platform:
    """A platform that says when a number changes; each builds a payload at a second after the first."""

    name: str
    says: Callable[[str, str, str, int], Any]
    changes: Callable[[str, str, int], Any]
    edits: Callable[[str, str, str, int], Any]
    deletes: Callable[[str, str, int], Any]


def cloud(number: str, kind: str, at: int, external_id: str = "", **held: Any) -> dict[str, Any]:
    message = {
        "from": number,
        "id": external_id or f"{kind}{at}",
        "timestamp": str(AT + at),
        "type": kind,
        **held,
    }
    value = {"messages": [message], "contacts": [{"wa_id": number, "profile": {"name": "Rita"}}]}
    if kind == "system":
        del value["contacts"]
    return {"entry": [{"changes": [{"field": "messages", "value": value}]}]}


def baileys(number: str, external_id: str, at: int, **held: Any) -> dict[str, Any]:
    key = {"remoteJid": f"{number}@s.whatsapp.net", "fromMe": False, "id": external_id}
    return {"messages": [{"key": key, "messageTimestamp": AT + at, "pushName": "Rita", **held}]}


def baileys_change(number: str, at: int, **change: Any) -> dict[str, Any]:
    return baileys(number, f"{change['type']}{at}", at, message={"protocolMessage": change})


PLATFORMS = [
    Platform(
        name="whatsapp",
        says=lambda number, i, words, at: cloud(number, "text", at, i, text={"body": words}),
        changes=lambda old, new, at: cloud(
            old, "system", at, system={"type": "user_changed_number", "wa_id": new, "body": "changed"}
        ),
        edits=lambda number, i, words, at: cloud(
            number,
            "edit",
            at,
            edit={"original_message_id": i, "message": {"type": "text", "text": {"body": words}}},
        ),
        deletes=lambda number, i, at: cloud(number, "revoke", at, revoke={"original_message_id": i}),
    ),
    Platform(
        name="baileys",
        says=lambda number, i, words, at: baileys(number, i, at, message={"conversation": words}),
        changes=lambda old, new, at: baileys(
            old, f"stub{at}", at, messageStubType=42, messageStubParameters=[f"{new}@s.whatsapp.net"]
        ),
        edits=lambda number, i, words, at: baileys_change(
            number,
            at,
            type=14,
            key={"id": i},
            timestampMs=(AT + at) * 1000,
            editedMessage={"conversation": words},
        ),
        deletes=lambda number, i, at: baileys_change(number, at, type=0, key={"id": i}),
    ),
]
CLOUD, BAILEYS = PLATFORMS
# what a change does is the same however it is told: that it is read off each platform is two stories
every_platform = pytest.mark.parametrize("on", PLATFORMS, ids=[platform.name for platform in PLATFORMS])


def send(client: httpx.Client, database: Database, on: Platform, *payloads: Any, works: bool = True) -> None:
    for payload in payloads:
        answer = client.post(f"/v1/events/{on.name}", json=payload)
        assert answer.status_code == 200, answer.text
        assert set(answer.json()["left_out"]) <= {"kept_out"}, answer.text
        if works:
            work(database)


def said(database: Database) -> dict[str, list[tuple[str, str]]]:
    """What is stored in each chat, with who said it."""
    with database.tenant(TENANT) as connection:
        rows = connection.execute(
            text("SELECT chat_id, sender_id, content FROM messages ORDER BY chat_id, sent_at, external_id")
        ).all()
    held: dict[str, list[tuple[str, str]]] = {}
    for row in rows:
        held.setdefault(row.chat_id, []).append((row.sender_id, row.content))
    return held


def of(number: str, *words: str) -> dict[str, list[tuple[str, str]]]:
    return {f"whatsapp:{number}": [(f"whatsapp:{number}", word) for word in words]}


def start_again(
    database: Database, tables: Iterable[str] = ("messages", "conversation_sessions", "chats")
) -> None:
    with database.tenant(TENANT) as connection:
        for table in (*tables, "jobs", "changed_numbers", "suppression_list", "user_senders", "users"):
            connection.execute(text(f"DELETE FROM {table}"))
        connection.execute(text("DELETE FROM forget_receipts"))


def shown(client: httpx.Client, number: str, query: str = "Como se chama o gato?") -> str:
    body = {
        "chat_id": f"whatsapp:{number}",
        "user_id": f"whatsapp:{number}",
        "query": query,
        "profile": "ask",
    }
    return client.post("/v1/context", json=body).text


@every_platform
def test_in_whatever_order_it_is_told_each_keeps_what_they_said(
    client: httpx.Client, database: Database, on: Platform
) -> None:
    events = {
        "mine": on.says(OLD, "a1", FIRST, 0),
        "change": on.changes(OLD, NEW, 100),
        "later": on.says(NEW, "a2", LATER, 150),
        "theirs": on.says(OLD, "b1", OTHER, 200),
    }
    for order in list(permutations(events))[:: 3 if on.name == "whatsapp" else 5]:
        send(client, database, on, *(events[name] for name in order))
        expected = {**of(NEW, FIRST, LATER), **of(OLD, OTHER)}
        assert said(database) == expected, order
        # the platform repeats its webhooks
        send(client, database, on, *events.values())
        assert said(database) == expected, order
        with database.tenant(TENANT) as connection:
            counted = connection.execute(
                text("SELECT chat_id, message_count, moved_to, emptying FROM chats ORDER BY chat_id")
            ).all()
            in_sessions = connection.execute(
                text("SELECT chat_id, sum(message_count) FROM conversation_sessions GROUP BY 1 ORDER BY 1")
            ).all()
        assert [tuple(row) for row in counted] == [
            (f"whatsapp:{OLD}", 1, None, False),
            (f"whatsapp:{NEW}", 2, None, False),
        ], order
        assert [int(row[1]) for row in in_sessions] == [1, 2], order
        start_again(database)


def test_two_changes_of_one_number_in_any_order_part_three_people(
    client: httpx.Client, database: Database
) -> None:
    on = CLOUD
    events = [
        on.says(OLD, "a1", FIRST, 0),
        on.changes(OLD, NEW, 100),
        on.says(OLD, "b1", OTHER, 200),
        on.changes(OLD, "44", 300),
        on.changes(NEW, "55", 400),
    ]
    for order in list(permutations(events))[::29]:
        send(client, database, on, *order, *events)
        assert said(database) == {**of("55", FIRST), **of("44", OTHER)}
        start_again(database)


def test_nothing_of_the_former_owner_is_shown_to_the_next_even_before_it_is_moved(
    client: httpx.Client, database: Database
) -> None:
    on = CLOUD
    send(client, database, on, on.says(OLD, "a1", FIRST, 0))
    memory = {"scope": "user", "user_id": f"whatsapp:{OLD}", "content": "Miró é o gato dela"}
    assert client.post("/v1/memories", json=memory).status_code == 201
    send(client, database, on, on.changes(OLD, NEW, 100), on.says(OLD, "b1", OTHER, 200), works=False)
    assert "Miró" not in shown(client, OLD)
    work(database)
    assert "Miró" not in shown(client, OLD)
    assert OTHER in shown(client, OLD, "велосипед")
    assert FIRST in shown(client, NEW)
    known = [identities.show(database, TENANT, f"whatsapp:{number}").memories for number in (OLD, NEW)]
    assert known == [0, 1]


@every_platform
def test_changes_of_what_was_said_before_reach_it_and_nothing_else(
    client: httpx.Client, database: Database, on: Platform
) -> None:
    send(client, database, on, on.says(OLD, "a1", FIRST, 0), on.says(OLD, "a2", LATER, 1))
    send(client, database, on, on.changes(OLD, NEW, 100), on.says(OLD, "b1", OTHER, 200))
    # made before the change, and told after it; and under the new number
    send(client, database, on, on.edits(OLD, "a1", "O gato é o Tomé.", 50), on.deletes(OLD, "a2", 60))
    assert said(database) == {**of(NEW, "O gato é o Tomé."), **of(OLD, OTHER)}
    send(client, database, on, on.edits(NEW, "a1", FIRST, 160))
    assert said(database) == {**of(NEW, FIRST), **of(OLD, OTHER)}
    # who has the number now changes nothing of theirs
    client.post(f"/v1/events/{on.name}", json=on.edits(OLD, "a1", "forged", 210))
    assert said(database)[f"whatsapp:{NEW}"] == [(f"whatsapp:{NEW}", FIRST)]


def test_whoever_is_forgotten_goes_with_what_they_said_under_their_former_number(
    client: httpx.Client, database: Database
) -> None:
    on = CLOUD
    events = [
        on.says(OLD, "a1", FIRST, 0),
        on.changes(OLD, NEW, 100),
        on.says(NEW, "a2", LATER, 150),
        on.says(OLD, "b1", OTHER, 200),
    ]
    send(client, database, on, *events)
    forget.start(database, TENANT, Subject(kind="user", sender_id=f"whatsapp:{NEW}"))
    send(client, database, on, *events, on.says(OLD, "a0", "mais um", 10))
    assert said(database) == of(OLD, OTHER)
    with database.tenant(TENANT) as connection:
        assert connection.scalar(text("SELECT count(*) FROM changed_numbers")) == 0


def test_groups_links_and_keys_stay_with_the_person(client: httpx.Client, database: Database) -> None:
    on = CLOUD
    group = {"chat": {"chat_id": "whatsapp:7@g.us"}, "messages": []}
    group["messages"] = [
        {"external_id": i, "sender_id": f"whatsapp:{OLD}", "content": words, "sent_at": AT + at}
        for i, words, at in (("g1", "A chave está no vaso.", 5), ("g2", OTHER, 250))
    ]
    early = {**group, "messages": group["messages"][:1]}
    assert client.post("/v1/messages", json=early).status_code < 300
    client.put(f"/v1/users/crm-rita/senders/whatsapp:{OLD}")
    made = client.post(
        "/v1/keys", json={"label": "сад", "scopes": ["ingest"], "chats": [f"whatsapp:{OLD}"]}
    ).json()
    send(client, database, on, on.says(OLD, "a1", FIRST, 0), on.changes(OLD, NEW, 100))
    send(client, database, on, on.says(OLD, "b1", OTHER, 200))
    members = {chat: identities.show_members(database, TENANT, chat).members for chat in ("whatsapp:7@g.us",)}
    assert members == {"whatsapp:7@g.us": [f"whatsapp:{NEW}"]}
    assert "vaso" not in shown(client, OLD, "onde está a chave?")
    assert identities.show(database, TENANT, "crm-rita").senders == [f"whatsapp:{NEW}"]
    key = {"Authorization": f"Bearer {made['key']}"}
    answers = [
        client.post(
            f"/v1/events/{on.name}", json=on.says(number, f"k{number}", "?", 300), headers=key
        ).status_code
        for number in (NEW, OLD)
    ]
    assert answers == [200, 403]
    # a late message of theirs in the group is theirs, and one by the new owner is not
    assert client.post("/v1/messages", json=group).status_code < 300
    with database.tenant(TENANT) as connection:
        senders = connection.scalars(
            text("SELECT sender_id FROM messages WHERE chat_id = 'whatsapp:7@g.us' ORDER BY sent_at")
        )
        assert list(senders) == [f"whatsapp:{NEW}", f"whatsapp:{OLD}"]


def test_daily_digests_follow_the_former_owner_and_a_key_of_the_next_ones_chat_reaches_nothing_of_theirs(
    client: httpx.Client, database: Database, settings: Settings
) -> None:
    on = CLOUD
    send(client, database, on, on.says(OLD, "a1", FIRST, 0))
    allowing = settings.model_copy(update={"digest_hosts": "hooks.example.org"})
    daily = DailyDigestIn(chat_id=f"whatsapp:{OLD}", daily="08:00", url="https://hooks.example.org/rita")
    daily_digests.add(database, TENANT, daily, None, allowing)
    send(client, database, on, on.changes(OLD, NEW, 100), on.says(OLD, "b1", OTHER, 200))
    assert [digest.chat_id for digest in daily_digests.listing(database, TENANT)] == [f"whatsapp:{NEW}"]
    wanted = {"label": "следующий", "scopes": ["ingest"], "chats": [f"whatsapp:{OLD}"]}
    key = {"Authorization": f"Bearer {client.post('/v1/keys', json=wanted).json()['key']}"}
    address = f"/v1/messages/whatsapp:{OLD}/a1"
    client.patch(address, json={"content": "forged"}, headers=key)
    client.delete(address, headers=key)
    assert said(database) == of(NEW, FIRST) | of(OLD, OTHER)


def test_many_people_may_change_their_numbers_at_once(client: httpx.Client, database: Database) -> None:
    on = CLOUD
    people = [("351911000", "441"), ("351911001", "442"), ("351911002", "443")]
    for old, new in people:
        send(client, database, on, on.says(old, f"m{old}", old, 0), on.changes(old, new, 100), works=False)
    work(database)
    assert said(database) == {chat: words for old, new in people for chat, words in of(new, old).items()}


def test_a_hidden_number_that_changed_is_free_too(client: httpx.Client, database: Database) -> None:
    on = CLOUD
    both = on.says(OLD, "a1", FIRST, 0)
    both["entry"][0]["changes"][0]["value"]["contacts"][0]["user_id"] = "PT.1"
    moved = {"type": "user_changed_user_id", "user_id": "PT.2", "previous_user_id": "PT.1"}
    change = cloud("", "system", 100, system=moved)
    send(client, database, on, both, change, on.says(OLD, "b1", OTHER, 200), change, both)
    assert said(database) == {"whatsapp:PT.2": [("whatsapp:PT.2", FIRST)], **of(OLD, OTHER)}
    assert set(identities.show(database, TENANT, "whatsapp:PT.1").senders) == {"whatsapp:PT.1"}
    assert identities.show(database, TENANT, "whatsapp:PT.1").user_id == "whatsapp:PT.2"


def test_a_person_shown_with_another_number_has_left_the_former_one(
    client: httpx.Client, database: Database
) -> None:
    on = BAILEYS

    def shows(number: str, external_id: str, words: str, at: int) -> Any:
        payload = on.says(number, external_id, words, at)
        payload["messages"][0]["key"]["remoteJidAlt"] = "88217@lid"
        return payload

    late = shows(OLD, "a0", "até logo", 10)
    events = [shows(OLD, "a1", FIRST, 0), shows(NEW, "a2", LATER, 150), on.says(OLD, "b1", OTHER, 200)]
    send(client, database, on, *events, late, *events)
    assert said(database) == {**of(NEW, FIRST, "até logo", LATER), **of(OLD, OTHER)}


def test_a_stub_in_a_group_tells_it_and_an_announcement_of_the_group_does(
    client: httpx.Client, database: Database
) -> None:
    on = BAILEYS
    update = {"id": "7@g.us", "author": f"{OLD}@s.whatsapp.net", "action": "modify"}
    update["participants"] = [{"id": "9@lid", "phoneNumber": f"{NEW}@s.whatsapp.net"}]  # type: ignore[assignment]
    send(client, database, on, on.says(OLD, "a1", FIRST, 0), {"group-participants.update": update})
    assert said(database) == of(NEW, FIRST)
    key = {"remoteJid": "7@g.us", "participant": f"{NEW}@s.whatsapp.net", "id": "s", "fromMe": False}
    stub = {"key": key, "messageStubType": 33, "messageStubParameters": ['{"id": "44@s.whatsapp.net"}']}
    send(client, database, on, {"messages": [{**stub, "messageTimestamp": AT + 10}]})
    assert said(database) == of("44", FIRST)
