"""What somebody sent is changed by them alone, or deleted by a moderator, in whatever order events come."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import permutations
from typing import Any

import httpx
import pytest
from sqlalchemy import text

from pipeline.erasure import forget
from pipeline.people import identities
from pipeline.store.connections.database import Database
from pipeline.store.operations.counters import totals
from schemas.people import Subject
from tests.conftest import TENANT
from tests.harness.pipeline import forget_all, rows

AT = 1_796_000_000
SAID, BETTER, FORGED = "Die Miete ist 500 €.", "Die Miete ist 510 €.", "Аренда теперь 900 €."


@dataclass(frozen=True)
class Platform:
    """A platform that leaves it to its readers who may change what; each builds an event by a person."""

    name: str
    chat: str
    person: Callable[[str], str]
    says: Callable[[str, str], Any]
    edits: Callable[[str, str, int], Any]
    deletes: Callable[[str], Any]
    appoints: Callable[[str], Any] | None = None


def matrix(who: str, kind: str, **event: Any) -> dict[str, Any]:
    return {
        "type": kind,
        "room_id": "!flat:h",
        "sender": f"@{who}:h",
        "event_id": f"$of-{who}-{kind}",
        "origin_server_ts": AT * 1000,
        **event,
    }


def matrix_edit(who: str, words: str, later: int) -> dict[str, Any]:
    new = {"msgtype": "m.text", "body": words}
    relation = {"rel_type": "m.replace", "event_id": "$rent"}
    content = {**new, "m.new_content": new, "m.relates_to": relation}
    at = (AT + later) * 1000
    return matrix(
        who, "m.room.message", content=content, event_id=f"$edit-{who}-{later}", origin_server_ts=at
    )


def baileys(who: str, identifier: str, message: Any, at: int = AT) -> dict[str, Any]:
    key = {
        "remoteJid": "7@g.us",
        "fromMe": False,
        "id": identifier,
        "participant": f"{who}@s.whatsapp.net",
    }
    return {"messages.upsert": {"messages": [{"key": key, "messageTimestamp": at, "message": message}]}}


def baileys_change(who: str, **change: Any) -> dict[str, Any]:
    # its key may say anything: it is written by who sends it
    forged = {"remoteJid": "7@g.us", "id": "rent", "participant": "ana@s.whatsapp.net"}
    return baileys(who, f"{who}-{change}", {"protocolMessage": {"key": forged, **change}})


def standard(kind: str, **data: Any) -> dict[str, Any]:
    return {"type": f"message.{kind}", "data": {"chat_id": "app:flat", **data}}


PLATFORMS = [
    Platform(
        name="matrix",
        chat="matrix:!flat:h",
        person=lambda who: f"matrix:@{who}:h",
        says=lambda who, words: matrix(
            who, "m.room.message", event_id="$rent", content={"msgtype": "m.text", "body": words}
        ),
        edits=matrix_edit,
        deletes=lambda who: matrix(who, "m.room.redaction", redacts="$rent"),
        appoints=lambda who: matrix(
            "ana", "m.room.power_levels", state_key="", content={"redact": 60, "users": {f"@{who}:h": 60}}
        ),
    ),
    Platform(
        name="baileys",
        chat="whatsapp:7@g.us",
        person=lambda who: f"whatsapp:{who}",
        says=lambda who, words: baileys(who, "rent", {"conversation": words}),
        edits=lambda who, words, later: baileys_change(
            who, type=14, timestampMs=(AT + later) * 1000, editedMessage={"conversation": words}
        ),
        deletes=lambda who: baileys_change(who, type=0),
        appoints=lambda who: {
            "group-participants.update": {
                "id": "7@g.us",
                "participants": [f"{who}@s.whatsapp.net"],
                "action": "promote",
            }
        },
    ),
    Platform(
        name="standard",
        chat="app:flat",
        person=lambda who: f"app:{who}",
        says=lambda who, words: {
            "type": "message.created",
            "data": {
                "chat": {"chat_id": "app:flat"},
                "messages": {
                    "external_id": "rent",
                    "sender_id": f"app:{who}",
                    "content": words,
                    "sent_at": AT,
                },
            },
        },
        edits=lambda who, words, later: standard(
            "edited", external_id="rent", sender_id=f"app:{who}", content=words, edited_at=AT + later
        ),
        deletes=lambda who: standard("deleted", external_id="rent", sender_id=f"app:{who}"),
    ),
]
every_platform = pytest.mark.parametrize("platform", PLATFORMS, ids=[platform.name for platform in PLATFORMS])


def send(client: httpx.Client, platform: Platform, *events: Any) -> int:
    """Hand over events; how many of them are said to be somebody else's."""
    answers = [client.post(f"/v1/events/{platform.name}", json=event) for event in events]
    assert {answer.status_code for answer in answers} <= {200, 202}, [answer.text for answer in answers]
    return sum(answer.json()["left_out"].get("not_theirs", 0) for answer in answers)


def words(database: Database, platform: Platform) -> list[str]:
    with database.tenant(TENANT) as connection:
        found = connection.scalars(
            text("SELECT content FROM messages WHERE chat_id = :chat"), {"chat": platform.chat}
        )
        return list(found)


def start_again(database: Database) -> None:
    with database.tenant(TENANT) as connection:
        for table in ("messages", "suppression_list", "daily_counters"):
            connection.execute(text(f"DELETE FROM {table}"))


@every_platform
def test_a_forged_change_changes_nothing_and_is_counted_and_ones_own_is_applied(
    client: httpx.Client, database: Database, platform: Platform
) -> None:
    said, own = platform.says("ana", SAID), platform.edits("ana", BETTER, 3)
    forged = (platform.edits("mal", FORGED, 9), platform.deletes("mal"))
    for events in permutations((said, own, *forged)):
        early = events.index(forged[1]) < events.index(said)
        refused = send(client, platform, *events)
        assert words(database, platform) == [BETTER]
        with database.tenant(TENANT) as connection:
            counted = sum(n for name, n in totals(connection, 1).items() if name.endswith(":not_theirs"))
        # a deletion of what has not come waits in silence for a message by its own sender
        assert counted == 2 - early >= refused
        start_again(database)


@every_platform
def test_ones_own_deletion_holds_whenever_it_comes_and_however_often_the_message_does(
    client: httpx.Client, database: Database, platform: Platform
) -> None:
    said, gone, forged = platform.says("ana", SAID), platform.deletes("ana"), platform.deletes("mal")
    for events in permutations((said, gone, forged, platform.edits("ana", BETTER, 3))):
        send(client, platform, *events, said)
        assert words(database, platform) == []
        start_again(database)


@pytest.mark.parametrize("platform", PLATFORMS[:2], ids=["matrix", "baileys"])
def test_a_moderator_deletes_what_others_wrote_and_edits_nothing(
    client: httpx.Client, database: Database, platform: Platform
) -> None:
    assert platform.appoints
    identities.change_members(database, TENANT, platform.chat, [platform.person("mod")], [], None)
    said = platform.says("ana", SAID)
    edit, deletion = platform.edits("mod", FORGED, 9), platform.deletes("mod")
    assert send(client, platform, said, deletion, platform.appoints("mod"), edit) == 2
    assert words(database, platform) == [SAID]
    assert send(client, platform, deletion, said) == 0
    assert words(database, platform) == []


@every_platform
def test_the_bots_own_word_is_enough_and_a_persons_other_id_is_theirs(
    client: httpx.Client, database: Database, platform: Platform
) -> None:
    send(client, platform, platform.says("ana", SAID))
    for who in ("ana", "annie"):
        linked = client.put(f"/v1/users/user-ana/senders/{platform.person(who)}")
        assert linked.status_code == 200, linked.text
    assert send(client, platform, platform.edits("annie", BETTER, 3)) == 0
    assert words(database, platform) == [BETTER]
    address = f"/v1/messages/{platform.chat}/{'$rent' if platform.name == 'matrix' else 'rent'}"
    assert client.patch(address, json={"content": "ok"}).json()["outcome"] == "edited"


@every_platform
def test_an_edit_that_waits_goes_with_the_person_who_made_it(
    client: httpx.Client, database: Database, platform: Platform
) -> None:
    send(client, platform, platform.edits("ana", BETTER, 3))
    forget.start(database, TENANT, Subject(kind="user", sender_id=platform.person("ana")))
    forget_all(database)
    assert rows(database, "SELECT count(*) FROM pending_changes") == [(0,)]
