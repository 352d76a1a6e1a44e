"""Signal's own export, and those of signal-export, come in as Signal's, with the people that they name."""

import json
import zipfile
from pathlib import Path
from typing import Any

from tests.platforms.reading import FIXTURES, Read, of_each_kind, read_path, require

MS = 1772359260123
# The account, recipients and chats of an export of Signal's own.
FRAMES = (FIXTURES / "signal/frames.jsonl").read_text("utf-8")
MARKDOWN = (FIXTURES / "signal/chat.md").read_text("utf-8")


def item(chat: str, author: str, ms: int = MS, **held: Any) -> dict[str, Any]:
    common = {"chatId": chat, "authorId": author, "dateSent": str(ms), "sms": False}
    return {"chatItem": common | {"incoming": {"dateReceived": str(ms)}} | held}


def standard(text: str, **more: Any) -> dict[str, Any]:
    return {"standardMessage": {"text": {"body": text}, **more}}


def own_export(tmp_path: Path, *items: dict[str, Any], **options: str) -> Read:
    path = tmp_path / "main.jsonl"
    path.write_text(FRAMES + "\n".join(json.dumps(item, ensure_ascii=False) for item in items))
    return read_path(path, **options)


@of_each_kind("signal")
def test_what_becomes_of_a_message_depends_on_its_kind(tmp_path: Path, example: dict[str, Any]) -> None:
    require(example, own_export(tmp_path, item("1", "3", **example["message"])))


def test_signals_own_export_names_chats_people_and_answers(tmp_path: Path) -> None:
    quote = {"targetSentTimestamp": str(MS), "authorId": "3", "text": {"body": "Когда отплываем?"}}
    mention = [{"start": 0, "length": 1, "mentionAci": "X4xWjQEZR72BqruHybcZlQ=="}]
    read = own_export(
        tmp_path,
        item("1", "3", **standard("Когда отплываем?", reactions=[{"emoji": "👀", "authorId": "1"}])),
        item("1", "4", MS + 1, **standard("六点", quote=quote)),
        item("1", "6", MS + 2, standardMessage={"text": {"body": "\ufffc نعم", "bodyRanges": mention}}),
        item("2", "1", MS + 3, **standard("уже иду 🚶")),
        chat_id="mine",
    )
    assert "--chat is not used" in read.notices[0]
    assert [(chat.chat_id, chat.kind, chat.title) for chat in read.chats][1] == (
        "signal:+4915112345",
        "direct",
        "小李",
    )
    group = read.chats[0]
    assert (group.chat_id.startswith("signal:group-"), group.kind, group.title) == (
        True,
        "group",
        "ورشة السفينة",
    )
    assert [
        (message.sender_id, message.sender_name, message.content, message.reply_to)
        for message in read.messages
    ] == [
        ("signal:5f8c568d-0119-47bd-81aa-bb87c9b71995", "Мира Соло", "Когда отплываем?", None),
        ("signal:+4915112345", "小李", "六点", str(MS)),
        (f"signal:Zoë@{group.chat_id.removeprefix('signal:')}", "Zoë", "@Мира Соло نعم", None),
        ("signal:boba.66", "Boba Фет", "уже иду 🚶", None),
    ]
    assert read.ids == [str(MS + number) for number in range(4)]
    assert read.messages[0].sent_at.isoformat() == "2026-03-01T10:01:00.123000+00:00"
    assert read.broken + read.unread + read.skipped == []


def test_an_edited_message_is_one_with_its_last_text_and_first_time(tmp_path: Path) -> None:
    first = item("1", "3", MS, **standard("в пять"))["chatItem"]
    of_no_chat = item("9", "3", **standard("где?"))
    read = own_export(tmp_path, item("1", "3", MS + 9, revisions=[first], **standard("в шесть")), of_no_chat)
    assert [(message.external_id, message.content) for message in read.messages] == [(str(MS), "в шесть")]
    assert ["chatId '9'" in broken.reason for broken in read.broken] == [True]


def test_the_text_of_signal_export_is_signals(tmp_path: Path) -> None:
    path = tmp_path / "Пристань" / "chat.md"
    path.parent.mkdir()
    path.write_text(MARKDOWN)
    chat = read_path(path, time_zone="Europe/Lisbon")
    assert (chat.chats[0].chat_id, chat.chats[0].platform) == ("signal:Пристань", "signal")
    assert [(message.sender_id, message.content) for message in chat.messages] == [
        ("signal:Мира@Пристань", "Когда отплываем?"),
        ("signal:小李@Пристань", "> Когда отплываем?\n\n六点"),
        ("signal:Zoë@Пристань", "يا: نعم"),
    ]
    assert [found.reason for found in chat.skipped] == ["deleted message"]
    assert all(record.by_clock for record in chat.records)


def test_the_folder_of_signal_export_is_one_import_with_each_chat_once(tmp_path: Path) -> None:
    path = tmp_path / "output.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for chat in ("Мира", "ورشة", "只有文字"):
            archive.writestr(f"{chat}/chat.md", MARKDOWN)
            if chat != "只有文字":
                archive.write(FIXTURES / "signal/data.json", f"{chat}/data.json")
    read = read_path(path, time_zone="Asia/Tokyo")
    assert sorted(chat.chat_id for chat in read.chats) == ["signal:Мира", "signal:ورشة", "signal:只有文字"]
    assert [record.message.content for record in read.records if record.chat_id == "signal:Мира"] == [
        "Когда отплываем?",
        "[image] > Когда отплываем?\n六点",
        "[sticker]",
    ]
    assert len(read.records) == 9
    assert read.broken == []
