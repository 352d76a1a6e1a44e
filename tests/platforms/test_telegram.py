"""A Telegram Desktop export comes in as the Bot API would have told it."""

import io
import json
from typing import Any

import pytest

from pipeline.platforms import telegram_export as telegram
from pipeline.platforms.records import ImportOptions
from tests.platforms.reading import Read, of_each_kind, read_path, require, sort


def read(value: object, **options: str) -> Read:
    return sort(telegram.parse(io.BytesIO(json.dumps(value).encode()), ImportOptions(**options)))  # type: ignore[arg-type]


def chat(*messages: Any, **header: Any) -> dict[str, Any]:
    return {"name": "House", "type": "private_supergroup", "id": 5} | header | {"messages": list(messages)}


def said(**fields: Any) -> dict[str, Any]:
    message = {"id": 1, "type": "message", "date_unixtime": "1704051667", "from": "Ana", "from_id": "user11"}
    return message | {"text": "hi"} | fields


@of_each_kind("telegram")
def test_what_becomes_of_a_message_depends_on_its_kind(example: dict[str, Any]) -> None:
    require(example, read(chat(example["message"])))


def test_a_forwarded_message_says_so_also_where_its_author_has_left_telegram() -> None:
    house = read(chat(said(forwarded_from="Lena"), said(id=2, forwarded_from=None), said(id=3)))
    assert [each.metadata for each in house.messages] == [
        {"forwarded_from": "Lena"},
        {"forwarded_from": ""},
        {},
    ]


def test_one_chats_export_is_read_whole() -> None:
    house = read_path("telegram/result.json")
    assert house.chats[0].chat_id == "telegram:-1001234567890"
    assert house.chats[0].kind == "group"
    assert house.contents == [
        "Shall we paint the door?",
        "Yes, in green, see this one (https://paint.example/green).",
        "[image] The old colour",
        "[sticker]",
        "[document Quote 2024.pdf]",
        "I have left",
        "Ferry at nine",
        "[poll] Which green?: Sage (1 vote) / Moss (1 vote)",
    ]
    assert house.ids == ["2", "3", "4", "5", "6", "7", "8", "9"]
    # as a bot sees them, also who has left Telegram, and a channel
    senders = [message.sender_id for message in house.messages]
    assert senders[:2] + senders[5:7] == ["telegram:11", "telegram:12", "telegram:13", "telegram:-10099"]
    assert (house.messages[1].reply_to, house.messages[1].thread) == ("2", None)
    assert house.messages[1].metadata == {"edited_at": "2023-12-31T19:45:00+00:00"}
    assert [skipped.reason for skipped in house.skipped] == ["service message"]
    assert not house.broken


def test_an_export_of_all_chats_keeps_them_apart() -> None:
    everything = read_path("telegram/all.json", time_zone="Europe/Lisbon")
    assert [(c.chat_id, c.kind, c.title) for c in everything.chats] == [
        ("telegram:12", "direct", "Ben"),
        ("telegram:500", "direct", "House Bot"),
        ("telegram:-77", "group", "Old Crew"),
        ("telegram:11", "direct", "Saved messages"),
        ("telegram:-10055", "group", "Gone"),
    ]
    # what the bot of a chat said is the assistant's
    assert [(record.chat_id, record.message.role) for record in everything.records][1:4] == [
        ("telegram:12", "user"),
        ("telegram:500", "user"),
        ("telegram:500", "assistant"),
    ]
    assert everything.records[2].where == "House Bot, messages[0]"


def test_times_of_old_exports_are_read_on_the_clock_that_is_said() -> None:
    old = chat(said(date="2019-07-01T12:00:00") | {"date_unixtime": None})
    del old["messages"][0]["date_unixtime"]
    lisbon = read(old, time_zone="Europe/Lisbon")
    assert lisbon.messages[0].sent_at.isoformat() == "2019-07-01T11:00:00+00:00"
    assert not lisbon.notices
    assert lisbon.records[0].by_clock
    assert "by the clock of Europe/Lisbon" in lisbon.times[0]
    assert "--tz" in read(old).notices[0]


def test_a_broken_message_is_reported_and_the_next_one_read() -> None:
    wrong = [said(id=None), said(from_id=None), said(date_unixtime="soon"), said(id="猫"), "what"]
    house = read(chat(*wrong, said(id=9)))
    assert house.ids == ["9"]
    assert [broken.where for broken in house.broken] == [f"messages[{n}]" for n in range(5)]
    assert "from_id is missing" in house.broken[1].reason


def test_an_export_that_breaks_off_gives_what_came_before() -> None:
    whole = json.dumps(chat(said(), said(id=2))).encode()
    cut = sort(telegram.parse(io.BytesIO(whole[:-40]), ImportOptions()))
    assert cut.ids == ["1"]
    assert "breaks off" in cut.broken[0].reason
    assert cut.broken[0].breaks_off


def test_a_forums_topics_are_threads_and_what_is_said_in_them_stays_there() -> None:
    def topic(number: int) -> dict[str, Any]:
        return {"id": number, "type": "service", "action": "topic_created", "title": "Hardware"}

    forum = read(
        chat(
            said(id=1, text="in General"),
            topic(5),
            topic(6),
            said(id=7, reply_to_message_id=5),
            said(id=8, reply_to_message_id=6),
            said(id=9, reply_to_message_id=7, text="to 7"),
            said(id=10, reply_to_message_id=9, text="to 9"),
            said(id=11, reply_to_message_id=1, text="to General"),
            said(id=12, reply_to_message_id=4, text="to what is gone"),
        )
    )
    assert [(m.external_id, m.reply_to, m.thread) for m in forum.messages] == [
        ("1", None, None),
        ("7", None, "5"),
        ("8", None, "6"),
        ("9", "7", "5"),
        ("10", "9", "5"),
        ("11", "1", None),
        ("12", "4", None),
    ]


def read_raw(text: str, at_once: int = 1 << 16) -> Read:
    """A file that is no JSON, given out in pieces of this many bytes."""

    class Pieces(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            return super().read(min(size or at_once, at_once))

    return sort(telegram.parse(Pieces(text.encode()), ImportOptions()))


def raw_chat(*messages: str) -> str:
    """Messages as they stand in a file, on lines of their own as Telegram Desktop writes them."""
    begin = '{\n "name": "Гавань",\n "type": "private_supergroup",\n "id": 5,\n "messages": [\n'
    listed = (
        f'  {{\n   "id": {n},\n   "type": "message",\n   "date_unixtime": "1788256860",\n   "from": "Ünal",\n'
        f'   "from_id": "user11",\n   {message}\n  }}'
        for n, message in enumerate(messages, start=1)
    )
    return begin + ",\n".join(listed) + "\n ]\n}"


@pytest.mark.parametrize("at_once", [1, 7, 1 << 16])
@pytest.mark.parametrize(
    ("written", "meant"),
    [
        (r"Пароль\x08\x0C от лодки", "Пароль\b\f от лодки"),
        # a person wrote a backslash, and perhaps a control character after it
        (r"C:\\x08\\x0C ميناء", r"C:\x08\x0C ميناء"),
        ("長" * 9000 + r"\x08い", "長" * 9000 + "\bい"),
    ],
)
def test_control_characters_of_telegrams_own_spelling_are_read_wherever_a_piece_of_the_file_ends(
    written: str, meant: str, at_once: int
) -> None:
    read = read_raw(raw_chat(f'"text": "{written}"', '"text": "danach"'), at_once)
    assert (read.contents, read.broken) == ([meant, "danach"], [])


@pytest.mark.parametrize("at_once", [1, 1 << 16])
@pytest.mark.parametrize(
    "name",
    [
        "video_files/наклейка.webm",
        "(File not included. Change data exporting settings to download.)",
    ],
)
def test_the_unquoted_files_of_custom_emoji_lose_no_message(name: str, at_once: int) -> None:
    emoji = f'{{\n     "type": "custom_emoji",\n     "text": "🦆",\n     "document_id": {name}\n    }}'
    quoted = '"text": "er schrieb \\"document_id\\": nichts, und weg"'
    read = read_raw(raw_chat(f'"text": [\n    "Ente ",\n    {emoji},\n    ""\n   ]', quoted), at_once)
    assert (read.contents, read.broken) == (["Ente 🦆", 'er schrieb "document_id": nichts, und weg'], [])
