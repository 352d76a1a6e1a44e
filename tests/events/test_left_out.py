"""Nothing is dropped in silence: what cannot be kept is cut and marked, or counted by platform and reason."""

import json
from typing import Any

import httpx
import pytest

from pipeline.ingest import accept
from pipeline.platforms.formats import FORMATS
from pipeline.platforms.records import Record
from pipeline.platforms.webhooks import PARSERS, parse_events
from pipeline.store.connections.database import Database
from pipeline.store.operations import counters
from schemas.bots import PLATFORMS, REASONS
from schemas.messages import MAX_CONTENT_BYTES
from tests.api.conftest import problem_of
from tests.conftest import TENANT
from tests.events.conftest import cases, telegram
from tests.harness.pipeline import rows
from tests.harness.sources import SECRETS, add, send, signed

LONG = "Кто выключил котёл? 谁关了锅炉？ 👩\u200d🚒 من أطفأ السخان؟ " * 1000 + "الآن"
STORED = "SELECT external_id, content, metadata FROM messages ORDER BY external_id"
MARK = f"… [cut: {len(LONG.encode())} bytes]"


def with_text(payload: Any, text: str, new: str) -> Any:
    """A payload with another text in place of one."""
    if isinstance(payload, dict):
        return {name: with_text(part, text, new) for name, part in payload.items()}
    if isinstance(payload, list):
        return [with_text(part, text, new) for part in payload]
    return new if payload == text else payload


def with_long_text(platform: str) -> tuple[Any, str]:
    """A payload of a platform with a message of a text that is too long, and the message's id."""
    for case in cases(platform):
        for message in case.get("stored", ()):
            payload = with_text(case["send"][0], message["text"], LONG)
            if payload != case["send"][0] and len(case["send"]) == 1 and not message.get("reply_to"):
                return payload, message["id"]
    raise AssertionError(platform)


def counted(database: Database, tenant: str = TENANT) -> dict[tuple[str, str], float]:
    """What a tenant's counters say was left out today."""
    with database.tenant(tenant) as connection:
        figures = accept.left_out_counts(counters.totals(connection, 1))
    return {key: items for key, items in figures.items() if items}


def require_cut(content: str, metadata: dict[str, Any]) -> None:
    """A text is LONG without its end, marked, and its length is told."""
    assert content.endswith(MARK)
    assert LONG.startswith(content.removesuffix(MARK))
    assert MAX_CONTENT_BYTES - 100 < len(content.encode()) <= MAX_CONTENT_BYTES
    assert metadata["original_bytes"] == len(LONG.encode())


@pytest.mark.parametrize("platform", PARSERS)
def test_a_text_that_is_too_long_is_cut_and_stored_once(
    client: httpx.Client, database: Database, platform: str
) -> None:
    payload, external_id = with_long_text(platform)
    answers = [client.post(f"/v1/events/{platform}", json=payload).json() for _ in range(2)]
    assert [answer["left_out"].get("cut", 0) for answer in answers] == [1, 0]
    assert answers[1]["duplicates"] == answers[0]["accepted"] > 0
    stored = {row[0]: row for row in rows(database, STORED)}
    require_cut(*stored[external_id][1:])
    assert counted(database)[platform, "cut"] == 1


def test_an_edit_that_is_too_long_is_cut_and_one_that_is_not_takes_the_mark_away(
    client: httpx.Client, database: Database
) -> None:
    message = telegram(text="Котёл")["message"]
    texts = ["Котёл", LONG, LONG, "Котёл выключен"]
    answers = []
    for at, said in enumerate(texts):
        update = {"update_id": at, "edited_message": message | {"text": said, "edit_date": 1777300100 + at}}
        answers.append(client.post("/v1/events/telegram", json=update).json()["left_out"])
        ((_, content, metadata),) = rows(database, STORED)
        if said == LONG:
            require_cut(content, metadata)
        else:
            assert (content, metadata) == (said, {})
    # what came again changes nothing, and is not counted again
    assert answers == [{}, {"cut": 1}, {}, {}]
    # and an edit that comes first is cut when it comes, while a short one leaves no mark of a long message
    for number, (first, then) in enumerate(((LONG, "kurz"), ("kurz", LONG))):
        other = message | {"message_id": 500 + number}
        new = {
            "content": first,
            "edited_at": 1777300200,
            "chat_id": "telegram:-1999",
            "external_id": 500 + number,
        }
        client.post("/v1/events/standard", json={"type": "message.edited", "data": new})
        client.post("/v1/events/telegram", json={"update_id": 9, "message": other | {"text": then}})
    long, short, _ = rows(database, STORED)
    require_cut(*long[1:])
    assert short[1:] == ("kurz", {})


def test_a_bots_own_call_is_told_the_field_and_the_limit(client: httpx.Client) -> None:
    said = {"external_id": "1", "sender_id": "a:1", "content": LONG, "sent_at": 1777300000}
    problem = problem_of(client.post("/v1/messages", json={"chat": "a:1", "messages": said}), 422)
    assert (problem["field"], str(MAX_CONTENT_BYTES) in problem["detail"]) == ("messages.0.content", True)
    problem = problem_of(client.patch("/v1/messages/a:1/1", json={"content": LONG}), 422)
    assert (problem["field"], str(MAX_CONTENT_BYTES) in problem["detail"]) == ("content", True)


def test_whatever_is_left_out_is_in_the_answer_the_log_and_the_counters(
    client: httpx.Client, database: Database, capfd: pytest.CaptureFixture[str]
) -> None:
    # Given a person who is not to be remembered, and a batch of which little can be kept
    client.put("/v1/users/telegram:66/memory", json={"memory": False})
    secret = "Geheimnis"
    batch = [
        telegram(message_id=1),
        telegram(message_id={}, text=secret),
        telegram(message_id=2, text=None),
        telegram(message_id=3, text=None, new_thing={"text": secret}),
        telegram(message_id=4, text=secret, **{"from": {"id": 66, "first_name": secret}}),
        telegram(message_id=5, text=LONG),
        {"update_id": 2, "message_reaction": {"emoji": secret}},
        *({"update_id": 3, f"kind_{number}": {"text": secret}} for number in range(100)),
        {"update_id": 4, f"{secret} {secret}": [1]},
    ]
    capfd.readouterr()
    # When it comes
    answer = client.post("/v1/events/telegram", json=batch).json()
    # Then each item is counted by its reason
    reasons = {"unreadable": 1, "no_text": 1, "unknown_kind": 102, "kept_out": 1, "cut": 1, "kind": 1}
    assert answer["left_out"] == reasons
    assert answer["accepted"] == 3
    assert counted(database) == {("telegram", reason): items for reason, items in reasons.items()}
    # and a sender makes no names without end
    assert len(answer["not_kept"]) <= 21
    assert sum(answer["not_kept"].values()) == 104
    names = {
        name for (name,) in rows(database, "SELECT name FROM daily_counters WHERE name LIKE 'left_out%'")
    }
    assert names == {f"left_out:telegram:{reason}" for reason in reasons}
    # and one line of the log says so, without a word of people
    (line,) = (line for line in capfd.readouterr().out.splitlines() if "left_out" in line)
    assert "telegram" in line
    assert "'unknown_kind': 1" in line
    assert "'message_reaction': 1" in line
    assert answer["request_id"] in line
    assert secret not in line
    # and another tenant has none of it
    assert counted(database, "neighbour") == {}


def test_what_nobody_can_read_is_counted_whoever_hears_of_it(
    client: httpx.Client, database: Database
) -> None:
    for platform in PARSERS:
        problem_of(client.post(f"/v1/events/{platform}", content=b"{"), 422)
        problem_of(client.post(f"/v1/events/{platform}", json={}), 422)
    assert counted(database) == {(platform, "unreadable"): 2 for platform in sorted(PARSERS)}
    for platform in (*SECRETS, "telegram", "matrix", "standard"):
        path, secret = add(client, platform)
        answer = send(client, path, b"[1", signed(platform, secret, b"[1"))
        assert answer.status_code == (204 if platform == "discord" else 200)
        assert counted(database)[platform, "unreadable"] == 3


def test_a_hook_takes_all_that_its_platform_sends_at_once(client: httpx.Client, database: Database) -> None:
    # a bot that passes it on can send it in parts
    event = cases("matrix")[0]["send"][0]["events"][0]
    body = json.dumps({"events": [event | {"event_id": f"${number}"} for number in range(1001)]}).encode()
    assert "in parts" in problem_of(client.post("/v1/events/matrix", content=body), 422)["detail"]
    path, secret = add(client, "matrix")
    assert send(client, path, body, signed("matrix", secret, body)).json()["accepted"] == 1001


def test_one_unreadable_message_of_a_webhook_loses_no_other(client: httpx.Client, database: Database) -> None:
    sent = json.loads(json.dumps(cases("standard")[0]["send"][0]))
    first, *others = sent["data"]["messages"]
    long = {"sender_name": "я" * 300, "metadata": {"note": "x" * 20_000, "forwarded_from": "Боб"}}
    sent["data"]["messages"] = [first | {"sent_at": "soon"}, 5, first | {"external_id": "7"} | long, *others]
    sent["data"]["chat"]["title"] = "Zimmer" * 100
    answer = client.post("/v1/events/standard", json=sent).json()
    # of the message its name and its metadata, and the chat's title
    assert (answer["accepted"], answer["left_out"]) == (2, {"unreadable": 2, "cut": 2})
    assert [broken["where"] for broken in answer["broken"]] == ["data.messages[0]", "data.messages[1]"]
    ((name, metadata),) = rows(database, "SELECT sender_name, metadata FROM messages WHERE external_id = '7'")
    assert name == "я" * 254 + "…"
    assert metadata["forwarded_from"] == "Боб"
    assert metadata["original_metadata_bytes"] > 20_000
    assert "note" not in metadata
    ((title,),) = rows(database, "SELECT title FROM chats")
    assert (len(title), title[-1]) == (500, "…")
    # what was cut is counted once, and another title of a chat that is known as well
    assert client.post("/v1/events/standard", json=sent).json()["left_out"] == {"unreadable": 2}
    sent["data"]["chat"]["title"], sent["data"]["messages"] = "Küche " * 200, [first | {"external_id": "8"}]
    again = [client.post("/v1/events/standard", json=sent).json()["left_out"] for _ in range(2)]
    assert again == [{"cut": 1}, {}]


# what each platform calls: what nobody reads, what is new and has words, and what nobody misses
OF_KINDS: dict[str, list[tuple[Any, dict[str, int], list[str]]]] = {
    "matrix": [
        ({"type": "m.room.encrypted", "content": {"ciphertext": "x"}}, {"unread": 1}, []),
        (
            {"type": "org.ex.note", "content": {"m.text": [{"body": "Котёл"}]}},
            {"unknown_kind": 1},
            ["Котёл"],
        ),
        ({"type": "org.ex.state", "state_key": "", "content": {"body": "x"}}, {"kind": 1}, []),
        ({"type": "m.reaction", "content": {"body": "x"}}, {"kind": 1}, []),
        (
            {
                "type": "m.poll.start",
                "content": {
                    "m.text": [{"body": "fallback"}],
                    "m.poll": {
                        "question": {"m.text": [{"body": "Wer?"}]},
                        "answers": [{"m.text": [{"body": "ich"}]}, {"m.text": [{"body": "du"}]}],
                    },
                },
            },
            {},
            ["[poll] Wer?: ich / du"],
        ),
        (
            {
                "type": "org.matrix.msc3381.poll.start",
                "content": {
                    "org.matrix.msc3381.poll.start": {
                        "question": {"org.matrix.msc1767.text": "Кто?"},
                        "answers": [{"org.matrix.msc1767.text": "я"}],
                    }
                },
            },
            {},
            ["[poll] Кто?: я"],
        ),
    ],
    "discord": [
        ({"t": "SOMETHING_NEW", "d": {"content": "x"}}, {"unknown_kind": 1}, []),
        ({"t": "GUILD_ROLE_UPDATE", "d": {}}, {"kind": 1}, []),
        (
            {
                "flags": 1 << 15,
                "components": [
                    {
                        "type": 17,
                        "components": [
                            {"type": 10, "content": "# Котёл"},
                            {
                                "type": 9,
                                "components": [{"type": 10, "content": "aus"}],
                                "accessory": {"type": 2, "label": "OK"},
                            },
                        ],
                    }
                ],
            },
            {},
            ["# Котёл\naus"],
        ),
    ],
    "whatsapp": [
        ({"type": "unsupported", "errors": [{"code": 131051}]}, {"unread": 1}, []),
        ({"type": "note", "note": {"body": "Котёл"}}, {"unknown_kind": 1}, ["[note] Котёл"]),
        ({"type": "note", "note": {"number": 1}}, {"unknown_kind": 1}, []),
    ],
    "baileys": [
        ({"messageStubType": 2}, {"unread": 1}, []),
        (
            {"message": {"eventMessage": {"title": "Regatta", "description": "Sonntag"}}},
            {},
            ["[event] Regatta: Sonntag"],
        ),
        ({"message": {"interactiveMessage": {"body": {"text": "Котёл"}}}}, {}, None),
        ({"message": {"hologramMessage": {"body": {"text": "Котёл"}}}}, {"unknown_kind": 1}, None),
        ({"message": {"reactionMessage": {"text": "x"}}}, {"kind": 1}, []),
    ],
    "slack": [
        ({"type": "letter_sent", "channel": "C1"}, {"unknown_kind": 1}, []),
        ({"type": "reaction_added", "user": "U1"}, {"kind": 1}, []),
    ],
    "standard": [
        ({"type": "message.sung", "data": {}}, {"unknown_kind": 1}, []),
        ({"type": "invoice.paid", "data": {}}, {"kind": 1}, []),
    ],
}


def as_sent(platform: str, raw: dict[str, Any]) -> Any:
    """What is told of one thing, as the platform sends it."""
    match platform:
        case "matrix":
            about = {
                "event_id": "$1",
                "room_id": "!r:ex",
                "sender": "@a:ex",
                "origin_server_ts": 1777300000000,
            }
            return {"events": [about | raw]}
        case "discord" if "t" not in raw:
            author = {"id": "11", "username": "bot", "bot": True}
            about = {"id": "9", "channel_id": "110", "guild_id": "1", "author": author, "content": ""}
            return {"t": "MESSAGE_CREATE", "d": about | {"timestamp": "2026-04-27T18:00:10+00:00"} | raw}
        case "whatsapp":
            about = {"from": "4924", "id": "wamid.1", "timestamp": "1777300090"}
            return {"entry": [{"changes": [{"field": "messages", "value": {"messages": [about | raw]}}]}]}
        case "baileys":
            key = {"remoteJid": "351918@s.whatsapp.net", "fromMe": False, "id": "3D01"}
            return {"messages": [{"key": key, "messageTimestamp": 1777300080} | raw]}
    return raw


@pytest.mark.parametrize("platform", OF_KINDS)
def test_what_people_wrote_and_nobody_reads_is_told_from_what_nobody_misses(
    standing_client: httpx.Client, platform: str
) -> None:
    for raw, left, stored in OF_KINDS[platform]:
        answer = standing_client.post(f"/v1/events/{platform}", json=as_sent(platform, raw)).json()
        assert answer["left_out"] == left, raw
        kept = [
            event for event in parse_events(platform, as_sent(platform, raw)) if isinstance(event, Record)
        ]
        texts = [record.message.content for record in kept]
        # of what is new all words are kept, in whatever form
        assert texts == stored if stored is not None else "Котёл" in texts[0], raw


def test_a_broken_update_of_a_list_loses_no_other(client: httpx.Client) -> None:
    good = {"telegram": telegram(message_id=1), "discord": as_sent("discord", {"content": "Hallo"})}
    for platform, sent in good.items():
        for broken in ({"of": "nothing"}, 5):
            answer = client.post(f"/v1/events/{platform}", json=[broken, sent])
            assert answer.status_code == 200
            assert answer.json()["accepted"] + answer.json()["duplicates"] == 1
            assert [item["where"] for item in answer.json()["broken"]] == ["[0]"]
            assert answer.json()["left_out"] == {"unreadable": 1}


def test_the_names_of_what_is_counted_are_closed(database: Database) -> None:
    assert {*PARSERS, *FORMATS, "other"} == set(PLATFORMS)
    accept.report_left_out(database, TENANT, "evil platform:1", {"kept_out": 2}, {})
    assert counted(database) == {("other", "kept_out"): 2}
    assert len(accept.left_out_counts({})) == len(PLATFORMS) * len(REASONS)
