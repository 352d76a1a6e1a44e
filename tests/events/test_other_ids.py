"""A person whom a platform knows by two ids is one person with one direct chat, as soon as it shows both together."""

from typing import Any

import httpx
import pytest
from sqlalchemy import text

from pipeline.erasure import forget
from pipeline.people import identities
from pipeline.store.connections.database import Database
from schemas.people import Subject
from tests.conftest import TENANT
from tests.harness.pipeline import forget_all

NUMBER, HIDDEN, LID = "351911000", "PT.7261", "88217@lid"


def cloud(external_id: str, words: str, **contact: str) -> dict[str, Any]:
    """A message through WhatsApp's Cloud API by a person whose number, other id or both are shown."""
    sender = {
        name: contact[key] for key, name in (("wa_id", "from"), ("user_id", "from_user_id")) if key in contact
    }
    message = {
        "id": external_id,
        "timestamp": "1796000000",
        "type": "text",
        "text": {"body": words},
        **sender,
    }
    value = {"contacts": [{"profile": {"name": "Rita"}, **contact}], "messages": [message]}
    return {"entry": [{"changes": [{"field": "messages", "value": value}]}]}


def baileys(external_id: str, words: str, **key: str) -> dict[str, Any]:
    message = {"key": {"id": external_id, **key}, "messageTimestamp": 1796000000}
    return {"messages": [{**message, "message": {"conversation": words}}]}


PLATFORMS = {
    "whatsapp": (
        cloud("a", "я живу в Фару", wa_id=NUMBER),
        cloud("b", "o gato chama-se Miro", wa_id=NUMBER, user_id=HIDDEN),
        cloud("c", "猫は六歳です", user_id=HIDDEN),
    ),
    "baileys": (
        baileys("a", "я живу в Фару", remoteJid=f"{NUMBER}@s.whatsapp.net"),
        baileys("b", "o gato chama-se Miro", remoteJid=LID, remoteJidAlt=f"{NUMBER}@s.whatsapp.net"),
        baileys("c", "猫は六歳です", remoteJid=LID),
    ),
}
OTHER = {"whatsapp": f"whatsapp:{HIDDEN}", "baileys": f"whatsapp:{LID}"}
orders = pytest.mark.parametrize("order", ["abc", "cab", "bca", "acb"])
platforms = pytest.mark.parametrize("platform", PLATFORMS)


def send(client: httpx.Client, database: Database, platform: str, *payloads: Any) -> None:
    for payload in payloads:
        answer = client.post(f"/v1/events/{platform}", json=payload)
        assert answer.status_code == 200, answer.text
        forget_all(database)


def chats(database: Database) -> dict[str, int]:
    with database.tenant(TENANT) as connection:
        found = connection.execute(text("SELECT chat_id, count(*) AS n FROM messages GROUP BY 1 ORDER BY 1"))
        return {row.chat_id: row.n for row in found}


@platforms
@orders
def test_what_is_said_under_either_id_is_in_one_chat_of_one_person(
    client: httpx.Client, database: Database, platform: str, order: str
) -> None:
    said = dict(zip("abc", PLATFORMS[platform], strict=True))
    send(client, database, platform, *(said[name] for name in order), *said.values())
    assert chats(database) == {f"whatsapp:{NUMBER}": 3}
    person = identities.show(database, TENANT, OTHER[platform])
    assert person.user_id == f"whatsapp:{NUMBER}"
    # When one of the ids is forgotten, then nothing said under the other is left or comes back
    forget.start(database, TENANT, Subject(kind="user", sender_id=OTHER[platform]))
    send(client, database, platform, *said.values())
    assert chats(database) == {}


@platforms
def test_a_key_for_some_chats_joins_nobody(client: httpx.Client, database: Database, platform: str) -> None:
    first, both, last = PLATFORMS[platform]
    send(client, database, platform, first, last)
    made = client.post(
        "/v1/keys",
        json={"label": "flat", "scopes": ["ingest"], "chats": [f"whatsapp:{NUMBER}", OTHER[platform]]},
    )
    assert made.status_code < 300, made.text
    answer = client.post(
        f"/v1/events/{platform}", json=both, headers={"Authorization": f"Bearer {made.json()['key']}"}
    )
    assert answer.json()["accepted"] == 1, answer.text
    assert identities.show(database, TENANT, OTHER[platform]).user_id == OTHER[platform]
    assert chats(database) == {f"whatsapp:{NUMBER}": 2, OTHER[platform]: 1}


def test_members_of_a_group_keep_the_group(client: httpx.Client, database: Database) -> None:
    spoken = baileys("g", "olá", remoteJid="77@g.us", participant=LID, participantPn=f"{NUMBER}@c.us")
    send(client, database, "baileys", *PLATFORMS["baileys"][::2], spoken)
    assert chats(database) == {"whatsapp:351911000": 2, "whatsapp:77@g.us": 1}
