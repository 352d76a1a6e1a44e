"""The chats of Messenger and Instagram come in with their letters, people and pictures as they were."""

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from tests.platforms.reading import Read, of_each_kind, read_path, require

MS = 1772359260123


def as_meta_writes(value: Any) -> Any:
    """Every byte of UTF-8 as a character of its own."""
    if isinstance(value, dict):
        return {key: as_meta_writes(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [as_meta_writes(inner) for inner in value]
    return value.encode().decode("latin-1") if isinstance(value, str) else value


def thread(
    *messages: dict[str, Any], people: tuple[str, ...] = ("Zoë Ångström", "Ben"), **more: Any
) -> dict[str, Any]:
    said = [
        {"sender_name": people[0], "timestamp_ms": MS - number, **raw} for number, raw in enumerate(messages)
    ]
    return {
        "participants": [{"name": name} for name in people],
        "messages": said,
        "title": people[0],
        "is_still_participant": True,
        "thread_path": "inbox/zo_123",
        "magic_words": [],
        **more,
    }


def encrypted(*messages: dict[str, Any]) -> dict[str, Any]:
    common = {"senderName": "อรทัย", "timestamp": MS, "type": "text", "isUnsent": False, "media": []}
    return {
        "participants": ["อรทัย", "Ben"],
        "threadName": "อรทัย_40",
        "messages": [common | raw for raw in messages],
    }


def read(tmp_path: Path, document: dict[str, Any], **options: str) -> Read:
    path = tmp_path / "message_1.json"
    path.write_text(json.dumps(as_meta_writes(document)))
    return read_path(path, **options)


@of_each_kind("messenger")
def test_what_becomes_of_a_message_depends_on_its_kind(tmp_path: Path, example: dict[str, Any]) -> None:
    require(example, read(tmp_path, thread(example["message"])))


TEXTS = [
    "O café está ótimo ☕",
    "Встретимся в порту",
    "今晚吃饺子吗?",
    "القارب جاهز",
    "สวัสดี 👩‍👩‍👧",
    "plain",
    "½ é",
]


def test_texts_names_and_titles_are_mended_in_every_script(tmp_path: Path) -> None:
    chat = read(tmp_path, thread(*({"content": text} for text in TEXTS)))
    assert chat.contents == TEXTS
    assert [(item.chat_id, item.platform, item.kind, item.title) for item in chat.chats] == [
        ("messenger:zo_123", "messenger", "direct", "Zoë Ångström")
    ]
    message = chat.messages[0]
    assert (message.sender_name, message.sender_id) == ("Zoë Ångström", "messenger:Zoë Ångström@zo_123")
    assert message.sent_at.isoformat() == "2026-03-01T10:01:00.123000+00:00"
    assert chat.broken + chat.unread + chat.skipped == []


def test_an_encrypted_chat_is_read_too(tmp_path: Path) -> None:
    path = tmp_path / "อรทัย_40.json"
    media = [{"uri": "./media/5f.jpeg"}, {"uri": "Failed to download media"}]
    messages = [
        {"text": "ถึงแล้ว ⛵"},
        {"type": "media", "text": "", "media": media},
        {"isUnsent": True, "text": "x"},
    ]
    path.write_text(json.dumps(encrypted(*messages, {"type": "placeholder", "text": ""}), ensure_ascii=False))
    chat = read_path(path)
    assert (chat.chats[0].chat_id, chat.chats[0].title) == ("messenger:อรทัย_40", "อรทัย, Ben")
    assert chat.contents == ["ถึงแล้ว ⛵", "[image] [media]"]
    assert [item.reason for item in chat.skipped] == ["deleted message"] * 2
    assert chat.messages[0].sender_name == "อรทัย"


@pytest.mark.parametrize(
    ("inbox", "platform"),
    [
        ("facebook-ana-2026/your_facebook_activity/messages/e2ee_cutover", "messenger"),
        ("your_instagram_activity/messages/inbox", "instagram"),
    ],
)
def test_a_whole_download_is_one_import_of_all_its_chats(tmp_path: Path, inbox: str, platform: str) -> None:
    three = ("Мария", "李雷", "Ali")
    files = {
        f"{inbox}/_1/message_1.json": thread({"content": "новое"}, thread_path="inbox/мария_1"),
        f"{inbox}/_1/message_2.json": thread({"content": "старое"}, thread_path="inbox/мария_1"),
        f"{inbox}/g_2/message_1.json": thread({"content": "大家好"}, people=three, thread_path="inbox/g_2"),
        "preferences/your_settings.json": {"settings": [{"name": "x"}]},
    }
    source = tmp_path / "download.zip"
    with zipfile.ZipFile(source, "w") as archive:
        for name, document in files.items():
            archive.writestr(name, json.dumps(as_meta_writes(document), indent=2))
    download = read_path(source, chat_id="mine")
    assert {(chat.chat_id, chat.kind) for chat in download.chats} == {
        (f"{platform}:мария_1", "direct"),
        (f"{platform}:g_2", "group"),
    }
    assert sorted(download.contents) == sorted(["новое", "старое", "大家好"])
    assert any(record.where == f"{inbox}/g_2/message_1.json, messages[0]" for record in download.records)
    assert "--chat is not used" in download.notices[0]
    assert not download.broken


def test_a_chat_that_the_file_does_not_name_is_asked_for(tmp_path: Path) -> None:
    nameless = thread({"content": "你好"}, title="", thread_path="")
    assert "--chat" in read(tmp_path, nameless).broken[0].reason
    assert read(tmp_path, nameless, chat_id="Пристань").chats[0].chat_id == "messenger:Пристань"


def test_what_is_wrong_is_named_and_the_rest_is_read(tmp_path: Path) -> None:
    chat = read(
        tmp_path,
        thread(
            {"content": "да", "timestamp_ms": "soon"}, {"content": "да", "sender_name": ""}, {"content": "好"}
        ),
    )
    assert chat.contents == ["好"]
    assert [broken.where for broken in chat.broken] == ["messages[0]", "messages[1]"]
    (tmp_path / "message_1.json").write_text(json.dumps(thread({"content": "да"}))[:-90])
    cut = read_path(tmp_path / "message_1.json", title="Пристань")
    assert (cut.contents, [broken.breaks_off for broken in cut.broken]) == (["да"], [True])
