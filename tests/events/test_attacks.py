"""Attacks by one person on another, on every platform: nothing of one is shown to another, or changed by them."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
from sqlalchemy import text

from pipeline.store.connections.database import Database
from tests.conftest import TENANT
from tests.events.conftest import work
from tests.harness.pipeline import rows

AT = 1_790_000_000
ANA, MAL = 11, 22
SAID, SECRET, FORGED, IDLE = (
    "Die Miete ist 500 €.",
    "Мой пин-код 7719.",
    "Аренда теперь 900 €.",
    "Schönes Wetter",
)
ASKED = "пин-код Miete"


def _telegram(
    who: int, direct: bool, external_id: str, words: str, at: int, name: str, kind: str = "message"
) -> Any:
    chat = {"id": who, "type": "private"} if direct else {"id": -100, "type": "supergroup", "title": "Flat"}
    sender = {"id": who, "is_bot": False, "first_name": name, "username": name}
    message = {"message_id": int(external_id), "date": AT, "chat": chat, "from": sender, "text": words}
    if kind != "message":
        message["edit_date"] = AT + at
    return {"update_id": int(external_id) * 1000 + at, kind: message}


def _slack(who: int, direct: bool, external_id: str, words: str, at: int, name: str, **event: Any) -> Any:
    channel = (
        {"channel": f"D{who}", "channel_type": "im"}
        if direct
        else {"channel": "C1", "channel_type": "channel"}
    )
    said = {
        "user": f"U{who}",
        "text": words,
        "ts": f"{AT}.{int(external_id):06}",
        "user_profile": {"real_name": name},
    }
    event = (
        {"message": {**said, "type": "message", "edited": {"ts": f"{AT + at}.0"}}, **event} if event else said
    )
    return {
        "type": "event_callback",
        "event": {"type": "message", "event_ts": f"{AT + at}.1", **channel, **event},
    }


def _discord(
    who: int, direct: bool, external_id: str, words: str, at: int, name: str, kind: str = "CREATE"
) -> Any:
    message = {"id": external_id, "type": 0, "author": {"id": str(who), "username": name}, "content": words}
    message |= {"timestamp": f"2026-09-01T00:00:{at:02}+00:00", "channel_id": str(who if direct else 1)}
    return {"t": f"MESSAGE_{kind}", "d": message | ({} if direct else {"guild_id": "9"})}


def _cloud(who: int, direct: bool, external_id: str, at: int, name: str, kind: str, **held: Any) -> Any:
    message = {"from": f"4900{who}", "id": external_id, "timestamp": str(AT + at), "type": kind, **held}
    message |= {} if direct else {"group_id": "g1"}
    value = {"contacts": [{"wa_id": f"4900{who}", "profile": {"name": name}}], "messages": [message]}
    return {"entry": [{"changes": [{"field": "messages", "value": value}]}]}


def _baileys(who: int, direct: bool, external_id: str, at: int, name: str, message: Any) -> Any:
    person = f"4900{who}@s.whatsapp.net"
    key = {"remoteJid": person if direct else "7@g.us", "fromMe": False, "id": external_id}
    key |= {} if direct else {"participant": person}
    return {"messages": [{"key": key, "messageTimestamp": AT + at, "pushName": name, "message": message}]}


def _matrix(who: int, direct: bool, external_id: str, words: str, at: int, name: str, **event: Any) -> Any:
    said = {"type": "m.room.message", "event_id": f"${external_id}", "sender": f"@p{who}:h"}
    said |= {"room_id": f"!dm{who}:h" if direct else "!flat:h", "origin_server_ts": (AT + at) * 1000}
    said |= {"content": {"msgtype": "m.text", "body": words}, "unsigned": {"displayname": name}}
    return {"events": [said | event]}


def _line(who: int, direct: bool, external_id: str, at: int, kind: str, **event: Any) -> Any:
    source = {"type": "user" if direct else "group", "userId": f"U{who}"} | (
        {} if direct else {"groupId": "G1"}
    )
    return {"events": [{"type": kind, "timestamp": (AT + at) * 1000, "source": source, **event}]}


def _standard(
    who: int, direct: bool, external_id: str, words: str, at: int, name: str, kind: str = "created"
) -> Any:
    chat, person = f"app:dm{who}" if direct else "app:flat", f"app:{who}"
    said = {"external_id": external_id, "sender_id": person, "content": words}
    if kind == "created":
        said |= {"sent_at": AT + at, "sender_name": name}
        return {"type": "message.created", "data": {"chat": {"chat_id": chat}, "messages": said}}
    changed = {"chat_id": chat, **said, "edited_at": AT + at}
    if kind == "deleted":
        changed = {"chat_id": chat, "external_id": external_id, "sender_id": person}
    return {"type": f"message.{kind}", "data": changed}


@dataclass(frozen=True)
class Platform:
    """How a person says something, and changes a message, directly or in the group; None: nobody can send that."""

    name: str
    group: str
    direct: Callable[[int], str]
    person: Callable[[int], str]
    says: Callable[[int, bool, str, str, int, str], Any]
    edits: Callable[[int, bool, str, str, int], Any] | None
    deletes: Callable[[int, bool, str, int], Any] | None


PLATFORMS = [
    Platform(
        name="telegram",
        group="telegram:-100",
        direct=lambda who: f"telegram:{who}",
        person=lambda who: f"telegram:{who}",
        says=_telegram,
        edits=lambda who, direct, i, words, at: _telegram(who, direct, i, words, at, "M", "edited_message"),
        # only in chats of business accounts, each with its own
        deletes=lambda who, direct, i, at: {
            "update_id": at,
            "deleted_business_messages": {
                "business_connection_id": f"of{who}",
                "chat": {"id": who if direct else -100, "type": "private"},
                "message_ids": [int(i)],
            },
        },
    ),
    Platform(
        name="slack",
        group="slack:C1",
        direct=lambda who: f"slack:D{who}",
        person=lambda who: f"slack:U{who}",
        says=_slack,
        edits=lambda who, direct, i, words, at: _slack(
            who, direct, i, words, at, "M", subtype="message_changed"
        ),
        # Slack alone says that a message is gone, and does not say by whom
        deletes=None,
    ),
    Platform(
        name="discord",
        group="discord:1",
        direct=lambda who: f"discord:{who}",
        person=lambda who: f"discord:{who}",
        says=_discord,
        edits=lambda who, direct, i, words, at: _discord(who, direct, i, words, at, "M", "UPDATE"),
        deletes=None,
    ),
    Platform(
        name="whatsapp",
        group="whatsapp:g1",
        direct=lambda who: f"whatsapp:4900{who}",
        person=lambda who: f"whatsapp:4900{who}",
        says=lambda who, direct, i, words, at, name: _cloud(
            who, direct, i, at, name, "text", text={"body": words}
        ),
        edits=lambda who, direct, i, words, at: _cloud(
            who,
            direct,
            f"e{at}",
            at,
            "M",
            "edit",
            edit={"original_message_id": i, "message": {"type": "text", "text": {"body": words}}},
        ),
        deletes=lambda who, direct, i, at: _cloud(
            who, direct, f"d{at}", at, "M", "revoke", revoke={"original_message_id": i}
        ),
    ),
    Platform(
        name="baileys",
        group="whatsapp:7@g.us",
        direct=lambda who: f"whatsapp:4900{who}",
        person=lambda who: f"whatsapp:4900{who}",
        says=lambda who, direct, i, words, at, name: _baileys(
            who, direct, i, at, name, {"conversation": words}
        ),
        edits=lambda who, direct, i, words, at: _baileys(
            who,
            direct,
            f"e{at}",
            at,
            "M",
            # whoever writes it writes its key, too
            {
                "protocolMessage": {
                    "type": 14,
                    "key": {"remoteJid": "7@g.us", "id": i, "participant": f"4900{ANA}@s.whatsapp.net"},
                    "editedMessage": {"conversation": words},
                }
            },
        ),
        deletes=lambda who, direct, i, at: _baileys(
            who, direct, f"d{at}", at, "M", {"protocolMessage": {"type": 0, "key": {"id": i, "fromMe": True}}}
        ),
    ),
    Platform(
        name="matrix",
        group="matrix:!flat:h",
        direct=lambda who: f"matrix:!dm{who}:h",
        person=lambda who: f"matrix:@p{who}:h",
        says=_matrix,
        edits=lambda who, direct, i, words, at: _matrix(
            who,
            direct,
            f"e{who}{at}",
            words,
            at,
            "M",
            content={
                "msgtype": "m.text",
                "body": words,
                "m.new_content": {"msgtype": "m.text", "body": words},
                "m.relates_to": {"rel_type": "m.replace", "event_id": f"${i}"},
            },
        ),
        deletes=lambda who, direct, i, at: _matrix(
            who, direct, f"d{who}{at}", "", at, "M", type="m.room.redaction", redacts=f"${i}"
        ),
    ),
    Platform(
        name="line",
        group="line:G1",
        direct=lambda who: f"line:U{who}",
        person=lambda who: f"line:U{who}",
        says=lambda who, direct, i, words, at, _name: _line(
            who, direct, i, at, "message", message={"type": "text", "id": i, "text": words}
        ),
        # LINE has no edits
        edits=None,
        deletes=lambda who, direct, i, at: _line(who, direct, i, at, "unsend", unsend={"messageId": i}),
    ),
    Platform(
        name="standard",
        group="app:flat",
        direct=lambda who: f"app:dm{who}",
        person=lambda who: f"app:{who}",
        says=_standard,
        edits=lambda who, direct, i, words, at: _standard(who, direct, i, words, at, "M", "edited"),
        deletes=lambda who, direct, i, at: _standard(who, direct, i, "", at, "M", "deleted"),
    ),
]


def _edit(on: Platform, *, direct: bool, external_id: str) -> Iterable[Any]:
    return [on.edits(MAL, direct, external_id, FORGED, 9)] if on.edits else []


def _delete(on: Platform, *, direct: bool, external_id: str) -> Iterable[Any]:
    return [on.deletes(MAL, direct, external_id, 9)] if on.deletes else []


ATTACKS: dict[str, Callable[[Platform], Iterable[Any]]] = {
    "an edit of what another said": lambda on: _edit(on, direct=False, external_id="1"),
    "a deletion of what another said": lambda on: _delete(on, direct=False, external_id="1"),
    "an edit from another chat": lambda on: _edit(on, direct=True, external_id="2"),
    "a deletion from another chat": lambda on: _delete(on, direct=True, external_id="2"),
    "the name of another": lambda on: [on.says(MAL, True, "5", IDLE, 9, "Ana Peres")],
    "the id of another's message": lambda on: [on.says(MAL, True, "2", IDLE, 9, "Mal")],
}


def words(database: Database, chat_id: str) -> list[str]:
    with database.tenant(TENANT) as connection:
        said = connection.scalars(
            text("SELECT content FROM messages WHERE chat_id = :chat ORDER BY sent_at, external_id"),
            {"chat": chat_id},
        )
        return list(said)


@pytest.mark.parametrize("on", PLATFORMS, ids=[platform.name for platform in PLATFORMS])
def test_nothing_of_one_is_shown_to_another_or_changed(
    client: httpx.Client, database: Database, on: Platform
) -> None:
    said = [on.says(ANA, False, "1", SAID, 1, "Ana Peres"), on.says(ANA, True, "2", SECRET, 2, "Ana Peres")]
    own = on.says(MAL, True, "3", IDLE, 3, "Mal")
    for attack, made in ATTACKS.items():
        forged = list(made(on))
        # whenever it comes; an edit that holds the whole message is that message, if it comes first
        early = [] if on.name in ("telegram", "slack", "discord") and "edit" in attack else forged
        for payload in (*early, *said, own, *forged):
            answer = client.post(f"/v1/events/{on.name}", json=payload)
            assert answer.status_code == 200, answer.text
        work(database)
        assert words(database, on.group) == [SAID], attack
        assert words(database, on.direct(ANA)) == [SECRET], attack
        body = {"chat_id": on.direct(MAL), "user_id": on.person(MAL), "query": ASKED, "profile": "ask"}
        shown = client.post("/v1/context", json=body)
        assert shown.status_code == 200, shown.text
        assert not [secret for secret in (SAID, SECRET, "7719") if secret in shown.json()["text"]], attack
        for table in ("chats", "jobs", "users", "suppression_list"):
            rows(database, f"DELETE FROM {table}")


def _alone(platform: str, who: int, external_id: int, words: str, by: int) -> Any:
    """What a bot answers one person in a group that all are in, so that nobody else there sees it, or is told so."""
    if platform == "discord":
        asked = {"interaction_metadata": {"user": {"id": str(who)}}, "flags": 64, "application_id": "99"}
        author = {"id": "99", "bot": True, "username": "bot"}
        said = _discord(who, False, str(external_id), words, 20 + external_id, "")
        return said | {"d": said["d"] | asked | {"author": author}}
    people = {by: {"id": by, "is_bot": by == 99, "first_name": "P"}, who: {"id": who, "first_name": "P"}}
    chat = {"id": -100, "type": "supergroup"} if platform == "telegram" else {"id": 77, "type": "private"}
    alone = {"message_id": 0, "ephemeral_message_id": external_id, "receiver_user": people[who]}
    guest = {"message_id": external_id, "guest_query_id": "q"}
    said = {"date": AT + external_id, "chat": chat, "from": people[by], "text": words}
    if platform == "telegram":
        return (
            {"ok": True, "result": said | alone}
            if by == 99
            else {"update_id": external_id, "message": said | alone}
        )
    return {"update_id": external_id, "guest_message": said | guest}


@pytest.mark.parametrize("platform", ["telegram", "telegram guest", "discord"])
def test_what_one_person_of_a_group_is_told_alone_is_not_shown_to_the_others(
    client: httpx.Client, database: Database, platform: str
) -> None:
    on = PLATFORMS[0 if platform.startswith("telegram") else 2]
    for who, at in ((ANA, 1), (MAL, 2)):
        client.post(f"/v1/events/{on.name}", json=on.says(who, False, str(at), IDLE, at, f"P{who}"))
    by = {ANA: ANA, MAL: MAL} if platform == "telegram guest" else {ANA: 99, MAL: 99}
    # their ids and texts repeat as those of messages that expire do
    for who, external_id, said in ((ANA, 7, SECRET), (MAL, 7, FORGED), (ANA, 8, SAID)):
        told = client.post(f"/v1/events/{on.name}", json=_alone(platform, who, external_id, said, by[who]))
        assert told.json()["accepted"] == 1, told.text
    room = {"telegram": "telegram:-100", "telegram guest": "telegram:77", "discord": "discord:1"}[platform]
    assert words(database, f"{room}@{ANA}") == [SECRET, SAID]
    assert words(database, f"{room}@{MAL}") == [FORGED]
    # nor is it told where the others read the answer
    for chat_id, who in ((on.group, MAL), (f"{room}@{MAL}", MAL), (on.group, ANA)):
        body = {"chat_id": chat_id, "user_id": on.person(who), "query": ASKED, "profile": "ask"}
        shown = client.post("/v1/context", json=body)
        assert shown.status_code == 200, shown.text
        for secret in (SECRET, "7719", SAID):
            assert secret not in shown.json()["text"]


def test_who_closes_a_room_of_theirs_does_not_get_into_anothers(
    client: httpx.Client, database: Database
) -> None:
    on = next(platform for platform in PLATFORMS if platform.name == "matrix")

    def moves(to: str) -> Any:
        content = {"body": "moved", "replacement_room": to}
        closed = _matrix(MAL, True, "t", "", 9, "Mal", type="m.room.tombstone", state_key="", content=content)
        return client.post("/v1/events/matrix", json=closed).json()

    for who, said in ((ANA, SECRET), (MAL, IDLE)):
        client.post("/v1/events/matrix", json=on.says(who, True, str(who), said, 1, "P"))
    assert moves(f"!dm{ANA}:h")["left_out"] == {"not_allowed": 1}
    work(database)
    assert (words(database, on.direct(ANA)), words(database, on.direct(MAL))) == ([SECRET], [IDLE])
    # a room that nobody has written in is the next one, however often it is said
    assert [moves("!next:h")["moves"], moves("!next:h")["moves"]] == [1, 1]
    work(database)
    assert words(database, "matrix:!next:h") == [IDLE]
