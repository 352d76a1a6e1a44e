"""What Telegram Desktop up to 7.2 writes beside plain texts is kept as text, or counted by what it is."""

import io
import json
from typing import Any

import pytest

from pipeline.platforms.records import ImportOptions
from pipeline.platforms.telegram import export as telegram
from tests.platforms.reading import Read, sort
from tests.platforms.test_telegram import chat, read, said


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


def rich(*blocks: dict[str, Any]) -> dict[str, Any]:
    message = said(rich_message={"rtl": False, "part": False, "blocks": list(blocks)})
    del message["text"]
    return message


def plain(text: str) -> dict[str, Any]:
    return {"type": "plain", "text": text}


@pytest.mark.parametrize("at_once", [1, 2, 3, 7, 64, 1 << 16])
@pytest.mark.parametrize(
    ("written", "meant"),
    [
        (r"Пароль\x08\x0C от лодки", "Пароль\b\f от лодки"),
        (r"码头\x1F费\x0c用\x7f", "码头\x1f费\f用\x7f"),
        # a person wrote a backslash, and perhaps a control character after it
        (r"C:\\x08\\x0C ميناء", r"C:\x08\x0C ميناء"),
        (r"⛵\\\x0B\\\\x0B\n\"", '⛵\\\x0b\\\\x0B\n"'),
        ("長" * 9000 + r"\x08い", "長" * 9000 + "\bい"),
    ],
)
def test_control_characters_of_telegrams_own_spelling_are_read_wherever_a_piece_of_the_file_ends(
    written: str, meant: str, at_once: int
) -> None:
    read = read_raw(raw_chat(f'"text": "{written}"', '"text": "danach"'), at_once)
    assert (read.contents, read.broken) == ([meant, "danach"], [])


@pytest.mark.parametrize("at_once", [1, 50, 1 << 16])
@pytest.mark.parametrize(
    "name",
    [
        "stickers/sticker (12).webm",
        "video_files/наклейка.webm",
        "(File not included. Change data exporting settings to download.)",
    ],
)
def test_the_unquoted_files_of_custom_emoji_lose_no_message(name: str, at_once: int) -> None:
    emoji = f'{{\n     "type": "custom_emoji",\n     "text": "🦆",\n     "document_id": {name}\n    }}'
    quoted = '"text": "er schrieb \\"document_id\\": nichts, und weg"'
    read = read_raw(raw_chat(f'"text": [\n    "Ente ",\n    {emoji},\n    ""\n   ]', quoted), at_once)
    assert (read.contents, read.broken) == (["Ente 🦆", 'er schrieb "document_id": nichts, und weg'], [])


LINK = {"type": "text_link", "href": "https://wind.example", "text": plain(", прогноз")}
AT = {"type": "concat", "text": [plain("Сбор в "), {"type": "bold", "text": plain("06:40")}, LINK]}
NESTED = [{"type": "list", "items": [{"content": "text", "text": plain("红色")}]}]
ITEMS = [{"content": "text", "text": plain("买缆绳")}, {"content": "blocks", "blocks": NESTED}]
ROWS = [
    {"cells": [{"text": plain("مرسى"), "header": True}, {"text": plain("٣٤٠")}]},
    {"cells": [{"header": False}, {"text": plain("مايو")}]},
]
CAPTION = {"text": plain("桟橋"), "credit": plain("健")}


@pytest.mark.parametrize(
    ("blocks", "text"),
    [
        (
            [{"type": "heading", "text": plain("Ветер")}, {"type": "paragraph", "text": AT}],
            "Ветер\nСбор в 06:40, прогноз (https://wind.example)",
        ),
        ([{"type": "list", "kind": "ordered", "items": ITEMS}], "买缆绳\n红色"),
        ([{"type": "table", "title": plain("رسوم"), "rows": ROWS}], "رسوم\nمرسى | ٣٤٠\nمايو"),
        (
            [{"type": "code", "text": plain("make ⛵")}, {"type": "math", "formula": "v = s/t"}],
            "make ⛵\nv = s/t",
        ),
        ([{"type": "photo", "caption": CAPTION}, {"type": "divider"}], "桟橋\n健"),
        ([{"type": "video", "caption": {"text": {"type": "empty"}}}], "[video]"),
        ([{"type": "unsupported", "source_type": "unknown", "unsupported": True}], "[unsupported]"),
        # of a version to come
        (
            [{"type": "aquarium", "fish": [{"shoal": {"title": "Řeka", "text": ["ryb", plain("a")]}}]}],
            "Řeka\nryba",
        ),
    ],
)
def test_a_rich_message_is_the_text_of_its_blocks_whatever_their_shape(
    blocks: list[dict[str, Any]], text: str
) -> None:
    found = read(chat(rich(*blocks), said(id=2, text="weiter")))
    assert (found.contents, found.unread, found.broken) == ([text, "weiter"], [], [])


TASKS = [{"text": "канат", "id": 1}, {"text": ["позвать ", {"type": "bold", "text": "Зулю"}], "id": 2}]


@pytest.mark.parametrize(
    ("sent", "text"),
    [
        (
            {"todo_list": {"title": "До регаты", "answers": TASKS}},
            "[checklist] До регаты: канат / позвать Зулю",
        ),
        # an object in a string, as Telegram Desktop writes it
        (
            {"invoice_information": json.dumps({"title": "会費", "description": "一年分"})},
            "[invoice] 会費: 一年分",
        ),
        ({"place_name": "Café do Cais", "address": "Rua 3"}, "[location Café do Cais]"),
        ({"location_information": {"latitude": 38.7, "longitude": -9.1}}, "[location 38.7, -9.1]"),
        ({"giveaway_information": {"quantity": 3, "additional_prize": "صنارة"}}, "[giveaway] صنارة"),
        ({"paid_stars_amount": 50, "text": "Vorschau"}, "Vorschau\n[media for stars] 50"),
        ({"dice_emoji": "🎲", "dice_value": 4}, "[dice] 🎲\n[dice shows] 4"),
    ],
)
def test_what_people_send_beside_text_is_kept_as_polls_are(sent: dict[str, Any], text: str) -> None:
    found = read(chat(said(text="") | sent, said(id=2, reply_to_message_id=1)))
    assert (found.contents, found.unread, found.skipped) == ([text, "hi"], [], [])


@pytest.mark.parametrize(
    ("action", "text"),
    [
        ({"action": "todo_append_tasks", "items": TASKS}, "[added to the checklist] канат / позвать Зулю"),
        ({"action": "poll_append_answer", "option": "周日"}, "[added to the poll] 周日"),
        (
            {"action": "send_star_gift", "stars": 15, "gift_text": ["Alles ", plain("Gute")]},
            "[gift] Alles Gute",
        ),
        (
            {"action": "process_suggested_post", "rejected": True, "comment": "لاحقا"},
            "[suggested post] لاحقا",
        ),
    ],
)
def test_what_is_written_in_a_service_message_is_kept_as_what_its_author_said(
    action: dict[str, Any], text: str
) -> None:
    service = {
        "id": 2,
        "type": "service",
        "date_unixtime": "1788256920",
        "actor": "Bén",
        "actor_id": "user12",
    }
    found = read(chat(service | action))
    assert [(m.content, m.sender_id, m.sender_name) for m in found.messages] == [(text, "telegram:12", "Bén")]
    assert not found.unread


def test_service_messages_and_what_telegram_does_not_export_are_only_counted() -> None:
    ticked = {"id": 1, "type": "service", "action": "todo_completions", "completed": [1], "incompleted": []}
    called = {
        "id": 2,
        "type": "service",
        "actor": "Ана",
        "actor_id": "user1",
        "action": "group_call",
        "duration": 3,
    }
    odd = {"id": 3, "type": "service", "actor_id": "user1", "information_text": "Бот включён"}
    found = read(chat(ticked, called, odd, {"id": 4, "type": "unsupported"}))
    assert [skipped.reason for skipped in found.skipped] == [
        *["service message"] * 3,
        "kind that Telegram does not export",
    ]
    assert not found.unread
    assert not found.records


@pytest.mark.parametrize(
    ("message", "kind", "texts"),
    [
        (
            said(text="vidět", hologram={"title": "Loď", "layers": [{"text": "modrá"}]}),
            "hologram",
            ["vidět\n[hologram] Loď: modrá"],
        ),
        (said(text="", mood="сонный"), "mood", ["[mood] сонный"]),
        (said(text="", pulse=77), "pulse", []),
        (said(type="séance", text="谁在那里"), "séance", ["谁在那里"]),
        ({"id": 1, "type": "service", "actor_id": "user1", "action": "teleport"}, "teleport", []),
        (
            said(type="service", action="raise_anchor", from_id=None, actor_id="user1", text="⚓ hoch"),
            "raise_anchor",
            ["⚓ hoch"],
        ),
    ],
)
def test_a_kind_that_no_table_knows_is_named_and_its_text_kept(
    message: dict[str, Any], kind: str, texts: list[str]
) -> None:
    message = {field: value for field, value in message.items() if value is not None}
    found = read(chat(message))
    assert [(unread.platform, unread.kind, unread.known) for unread in found.unread] == [
        ("Telegram", kind, False)
    ]
    assert (found.contents, found.skipped, found.broken) == (texts, [], [])
