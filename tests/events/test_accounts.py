"""Several accounts of ours behind one webhook: what a person says to one is not shown to another."""

from typing import Any

import httpx
import pytest
from sqlalchemy import text

from pipeline.erasure import forget
from pipeline.people import identities
from pipeline.store.connections.database import Database
from schemas.people import Subject
from tests.conftest import TENANT
from tests.events.conftest import AT, work
from tests.harness.pipeline import forget_all

CLINIC, SHOP, PERSON = "111", "222", "351911000"
SECRET, OTHER = "O exame deu positivo.", "¿Sigue en venta la bici?"


def cloud(account: str, at: int, kind: str = "text", user_id: str = "", **held: Any) -> dict[str, Any]:
    message = {"from": PERSON, "id": f"{account}-{at}", "timestamp": str(AT + at), "type": kind, **held}
    value: dict[str, Any] = {"messages": [message]}
    if account:
        value["metadata"] = {"display_phone_number": "1555", "phone_number_id": account}
    if user_id:
        value["contacts"] = [{"wa_id": PERSON, "user_id": user_id}]
    return {"entry": [{"changes": [{"field": "messages", "value": value}]}]}


def line(account: str, at: int, words: str) -> dict[str, Any]:
    message = {"type": "text", "id": f"{account}-{at}", "text": words}
    source = {"type": "user", "userId": PERSON}
    event = {"type": "message", "timestamp": (AT + at) * 1000, "source": source, "message": message}
    return {"destination": account, "events": [event]}


def telegram(account: str, at: int, words: str, kind: str = "message", message_id: int = 5) -> dict[str, Any]:
    chat, sender = {"id": 351911000, "type": "private"}, {"id": 351911000, "first_name": "Inês"}
    message = {"message_id": message_id, "date": AT + at, "chat": chat, "from": sender, "text": words}
    return {"update_id": at, kind: message | ({"edit_date": AT + at + 1} if kind != "message" else {})}


def baileys(account: str, at: int, words: str, **key: Any) -> dict[str, Any]:
    key = {"remoteJid": f"{PERSON}@s.whatsapp.net", "id": f"{account}-{at}", **key}
    return {"messages": [{"key": key, "messageTimestamp": AT + at, "message": {"conversation": words}}]}


PLATFORMS = {
    "whatsapp": lambda account, at, words: cloud(account, at, text={"body": words}),
    "line": line,
}


def send(client: httpx.Client, platform: str, *payloads: Any, **options: Any) -> None:
    for payload in payloads:
        answer = client.post(f"/v1/events/{platform}", json=payload, **options)
        assert answer.status_code == 200, answer.text
        assert not answer.json()["broken"], answer.text


def chats(database: Database) -> dict[str, list[str]]:
    with database.tenant(TENANT) as connection:
        rows = connection.execute(
            text("SELECT chat_id, array_agg(content ORDER BY sent_at) AS said FROM messages GROUP BY 1")
        )
        return {row.chat_id: row.said for row in rows}


@pytest.mark.parametrize("platform", PLATFORMS)
def test_the_first_account_keeps_the_chats_there_are_and_another_has_its_own(
    client: httpx.Client, database: Database, platform: str
) -> None:
    says = PLATFORMS[platform]
    first, second = says(CLINIC, 0, SECRET), says(SHOP, 5, OTHER)
    send(client, platform, first, second, second, first, says(CLINIC, 9, "Obrigada"))
    assert chats(database) == {
        f"{platform}:{PERSON}": [SECRET, "Obrigada"],
        f"{platform}:{PERSON}@{SHOP}": [OTHER],
    }
    # When the shop's bot asks, then it is told what was said to the shop, by one person of both
    body = {
        "chat_id": f"{platform}:{PERSON}@{SHOP}",
        "user_id": f"{platform}:{PERSON}",
        "query": "exame bici",
    }
    shown = client.post("/v1/context", json=body).json()
    assert OTHER in shown["text"]
    with database.tenant(TENANT) as connection:
        senders = connection.scalars(text("SELECT DISTINCT sender_id FROM messages"))
        assert list(senders) == [f"{platform}:{PERSON}"]


STATED: dict[str, tuple[str, Any]] = {"telegram": ("telegram", telegram), "baileys": ("whatsapp", baileys)}


@pytest.mark.parametrize("platform", STATED)
def test_a_bot_that_is_named_has_chats_of_its_own_and_the_one_without_a_name_keeps_those_there_are(
    client: httpx.Client, database: Database, platform: str
) -> None:
    of, says = STATED[platform]
    # Given a bot, and a second one whose messages may have the first one's ids, whichever comes first
    at_shop = {"params": {"account": SHOP}}
    for _ in range(2):
        send(client, platform, says(SHOP, 5, OTHER), **at_shop)
        send(client, platform, says("", 0, SECRET))
    assert chats(database) == {f"{of}:{PERSON}": [SECRET], f"{of}:{PERSON}@{SHOP}": [OTHER]}
    # When the person changes what they said to the second, or has another number, then each goes with its bot
    if platform == "telegram":
        send(client, platform, says(SHOP, 5, "Afinal não.", "edited_message"), **at_shop)
        assert chats(database) == {f"{of}:{PERSON}": [SECRET], f"{of}:{PERSON}@{SHOP}": ["Afinal não."]}
        return
    hidden = {"remoteJid": "99@lid", "remoteJidAlt": f"{PERSON}@s.whatsapp.net"}
    send(client, platform, says(SHOP, 6, "!", **hidden), says(SHOP, 7, "?", remoteJid="99@lid"), **at_shop)
    work(database)
    assert chats(database) == {f"{of}:{PERSON}": [SECRET], f"{of}:{PERSON}@{SHOP}": [OTHER, "!", "?"]}
    change = {"id": "7@g.us", "author": f"{PERSON}@s.whatsapp.net", "participants": ["44@s.whatsapp.net"]}
    send(client, platform, {"group-participants.update": {**change, "action": "modify"}})
    work(database)
    assert chats(database) == {f"{of}:44": [SECRET], f"{of}:44@{SHOP}": [OTHER, "!", "?"]}


def test_an_account_that_cannot_be_is_refused_by_name(client: httpx.Client) -> None:
    said = telegram("", 0, "?")
    forms = [("slack", {"type": "hello"}, SHOP), ("baileys", baileys("", 0, "?"), "")]
    for platform, payload, account in (*forms, ("telegram", said, "a@b"), ("telegram", said, "日" * 9)):
        answer = client.post(f"/v1/events/{platform}", json=payload, params={"account": account})
        assert (answer.status_code, answer.json()["field"]) == (422, "account"), answer.text
    granted = {"label": "clinic", "scopes": ["ingest"], "chats": [f"telegram:{PERSON}"]}
    key = {"Authorization": f"Bearer {client.post('/v1/keys', json=granted).json()['key']}"}
    forged = telegram("", 0, "?")
    told = client.post("/v1/events/telegram", json=forged, params={"account": SHOP}, headers=key)
    assert told.status_code == 403


def test_changes_and_second_ids_of_an_account_are_its_own(client: httpx.Client, database: Database) -> None:
    send(client, "whatsapp", *(cloud(account, 0, text={"body": SECRET}) for account in (CLINIC, SHOP)))
    new = {"message": {"type": "text", "text": {"body": OTHER}}, "original_message_id": f"{SHOP}-0"}
    send(
        client,
        "whatsapp",
        cloud(SHOP, 5, "edit", edit=new),
        cloud(SHOP, 6, text={"body": "!"}, user_id="PT.1"),
    )
    hidden = cloud(SHOP, 7, text={"body": "?"})
    message = hidden["entry"][0]["changes"][0]["value"]["messages"][0]
    message["from_user_id"] = "PT.1"
    del message["from"]
    send(client, "whatsapp", hidden)
    shop = f"whatsapp:{PERSON}@{SHOP}"
    assert chats(database) == {f"whatsapp:{PERSON}": [SECRET], shop: [OTHER, "!", "?"]}
    send(client, "whatsapp", cloud(CLINIC, 9, "revoke", revoke={"original_message_id": f"{CLINIC}-0"}))
    assert chats(database) == {shop: [OTHER, "!", "?"]}


def test_a_number_moves_on_in_the_chats_with_all_accounts(client: httpx.Client, database: Database) -> None:
    send(client, "whatsapp", *(cloud(account, 0, text={"body": SECRET}) for account in (CLINIC, SHOP)))
    moved = {"type": "user_changed_number", "wa_id": "44"}
    changes = [cloud(account, at, "system", system=moved) for account, at in ((SHOP, 50), (CLINIC, 51))]
    send(client, "whatsapp", changes[0])
    work(database)
    send(client, "whatsapp", *(cloud(account, 90, text={"body": OTHER}) for account in (SHOP, CLINIC)))
    send(client, "whatsapp", *changes)
    work(database)
    assert chats(database) == {
        "whatsapp:44": [SECRET],
        f"whatsapp:44@{SHOP}": [SECRET],
        f"whatsapp:{PERSON}": [OTHER],
        f"whatsapp:{PERSON}@{SHOP}": [OTHER],
    }
    forget.start(database, TENANT, Subject(kind="user", sender_id="whatsapp:44"))
    forget_all(database)
    send(
        client,
        "whatsapp",
        *(cloud(account, 0, text={"body": SECRET}) for account in (CLINIC, SHOP)),
        *changes,
    )
    assert set(chats(database)) == {f"whatsapp:{PERSON}", f"whatsapp:{PERSON}@{SHOP}"}


def test_a_key_for_some_chats_makes_no_account_the_first(client: httpx.Client, database: Database) -> None:
    granted = {"label": "clinic", "scopes": ["ingest"], "chats": [f"whatsapp:{PERSON}"]}
    made = client.post("/v1/keys", json=granted).json()
    key = {"headers": {"Authorization": f"Bearer {made['key']}"}}
    forged = cloud("999", 0, text={"body": "?"})
    assert client.post("/v1/events/whatsapp", json=forged, **key).status_code == 200
    send(client, "whatsapp", cloud(CLINIC, 5, text={"body": SECRET}))
    assert (
        client.post("/v1/events/whatsapp", json=cloud(SHOP, 9, text={"body": OTHER}), **key).status_code
        == 403
    )
    assert chats(database) == {f"whatsapp:{PERSON}": ["?", SECRET]}


def test_ids_that_somebody_has_unlinked_stay_two_people(client: httpx.Client, database: Database) -> None:
    both = cloud(CLINIC, 0, text={"body": SECRET}, user_id="PT.1")
    send(client, "whatsapp", both)
    assert identities.show(database, TENANT, "whatsapp:PT.1").user_id == f"whatsapp:{PERSON}"
    assert client.delete(f"/v1/users/whatsapp:{PERSON}/senders/whatsapp:PT.1").status_code == 200
    send(client, "whatsapp", both, cloud(CLINIC, 5, text={"body": "outra"}, user_id="PT.1"))
    hidden = cloud(CLINIC, 7, text={"body": OTHER})
    message = hidden["entry"][0]["changes"][0]["value"]["messages"][0]
    message["from_user_id"] = "PT.1"
    del message["from"]
    send(client, "whatsapp", hidden, both)
    work(database)
    assert identities.show(database, TENANT, "whatsapp:PT.1").user_id == "whatsapp:PT.1"
    assert chats(database) == {f"whatsapp:{PERSON}": [SECRET, "outra"], "whatsapp:PT.1": [OTHER]}
    # until somebody links them again
    assert client.put(f"/v1/users/whatsapp:{PERSON}/senders/whatsapp:PT.1").status_code == 200
    send(client, "whatsapp", both)
    work(database)
    assert set(chats(database)) == {f"whatsapp:{PERSON}"}
