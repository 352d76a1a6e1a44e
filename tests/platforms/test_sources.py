"""Whatever is given to import is recognised, or refused with what to do about it."""

import io
import json
import shutil
import zipfile
from pathlib import Path

import pytest

from ops.exports import SeveralExports
from ops.source import open_source
from pipeline.platforms import telegram_export as telegram
from pipeline.platforms.records import ImportOptions
from schemas.errors import InvalidInput
from tests.platforms.reading import FIXTURES, read_path, sort

HARBOUR = FIXTURES / "whatsapp/WhatsApp Chat with Harbour House.txt"


@pytest.mark.parametrize(
    ("content", "format_"),
    [
        ('{"guild":{"id":"1"},"channel":{"id":"2"},"messages":[]}', "discord"),
        ('{"chat_id": "a:b", "content": "\\"messages\\": [ \\"channel\\": {"}\n', "jsonl"),
        ("\n\n31.12.23, 21:41 - Jo: hi", "whatsapp"),
        ('{"date": "2026-03-01T10:01:00", "sender": "李", "body": "好"}', "signal"),
        ('{"participants": ["李", "Ali"], "threadName": "李_4", "messages": []}', "messenger"),
        ('{"messages": [{"timestamp_ms": 1, "uri": "your_instagram_activity/messages/1.jpg"', "instagram"),
    ],
)
def test_the_content_tells_the_format_not_the_name(tmp_path: Path, content: str, format_: str) -> None:
    (tmp_path / "data.txt").write_text(content)
    assert open_source(tmp_path / "data.txt", ImportOptions()).format == format_


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-be"])
def test_every_marked_unicode_reads_the_same(tmp_path: Path, encoding: str) -> None:
    text = HARBOUR.read_text()
    path = tmp_path / HARBOUR.name
    mark = "\ufeff" if encoding == "utf-16-be" else ""
    path.write_bytes((mark + text).encode(encoding))
    assert read_path(path).ids == read_path(HARBOUR).ids
    result = tmp_path / "result.json"
    result.write_bytes((mark + (FIXTURES / "telegram/result.json").read_text()).encode(encoding))
    assert read_path(result).ids == read_path("telegram/result.json").ids


def test_a_whatsapp_zip_is_read_with_its_media_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "WhatsApp Chat - Família.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.write(FIXTURES / "whatsapp/iphone/_chat.txt", "_chat.txt")
        archive.writestr("00000012-PHOTO-2023-12-31-21-42-03.jpg", b"\xff\xd8")
        archive.writestr("00000013-notes.txt", b"a text that somebody sent")
    family = read_path(path)
    assert family.chats[0].chat_id == "whatsapp:Família"
    assert len(family.messages) == 6


def refusal(path: Path, **options: str) -> str:
    format_ = options.pop("format", None)
    with pytest.raises(InvalidInput) as refused:
        open_source(path, ImportOptions(**options), format=format_)  # type: ignore[arg-type]
    return str(refused.value)


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("messages.html", b"<!DOCTYPE html><html>", "export again as JSON"),
        ("photo.jpg", b"\xff\xd8\xff\xe0\x00", "is no text"),
        ("C1.json", '{"channel_id": "C1", "name": "порт", "messages": [{"ts": "1"}]}', "slackdump export"),
        ("log.json", '{"messages": [{"type": "message", "text": "好"}]}', "JSON Lines"),
        (
            "log.json",
            '{"chats": {"list": [{"name": "李", "messages": [{"text": "好"}]}]}}',
            "without the ids",
        ),
    ],
)
def test_a_wrong_file_is_refused_with_what_to_do(
    tmp_path: Path, name: str, content: bytes | str, said: str
) -> None:
    (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    assert said in refusal(tmp_path / name)


def test_a_wrong_encoding_is_refused_with_the_byte_and_the_way_out(tmp_path: Path) -> None:
    path = tmp_path / "WhatsApp-Chat mit Joerg.txt"
    path.write_bytes("31.12.23, 21:41 - Jörg: hi".encode("cp1252"))
    assert "byte 0xF6 at position 19" in refusal(path)
    assert "iconv -f WINDOWS-1252 -t UTF-8" in refusal(path)


def test_a_folder_that_is_no_export_is_refused(tmp_path: Path) -> None:
    assert "holds no export" in refusal(tmp_path)
    assert "no Slack export" in refusal(tmp_path, format="slack")
    (tmp_path / "a.json").write_text("[]")
    assert "a.json is a JSON list" in refusal(tmp_path)
    (tmp_path / "b.json").write_text("{}")
    assert "holds no export" in refusal(tmp_path)


def test_of_several_exports_none_is_taken_silently_and_all_are_named(tmp_path: Path) -> None:
    made = {"garden.jsonl": "jsonl/garden.jsonl", "ChatExport_2024/result.json": "telegram/result.json"}
    for name, fixture in made.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(FIXTURES / fixture, tmp_path / name)
    with zipfile.ZipFile(tmp_path / "WhatsApp Chat - Ana.zip", "w") as archive:
        archive.write(FIXTURES / "whatsapp/iphone/_chat.txt", "_chat.txt")
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "package.json").write_text('{"name": "x"}')
    with pytest.raises(SeveralExports) as several:
        open_source(tmp_path, ImportOptions())
    assert {export.path for export in several.value.exports} == {
        tmp_path / name for name in (*made, "WhatsApp Chat - Ana.zip")
    }
    # in a zip, too
    with zipfile.ZipFile(tmp_path / "all.zip", "w") as archive:
        for name in ("a.jsonl", "b.jsonl"):
            archive.write(FIXTURES / "jsonl/garden.jsonl", name)
    with pytest.raises(SeveralExports) as several:
        open_source(tmp_path / "all.zip", ImportOptions())
    assert [export.name for export in several.value.exports] == ["a.jsonl", "b.jsonl"]


def test_chats_of_one_platform_are_one_export_among_others(tmp_path: Path) -> None:
    shutil.copytree(FIXTURES / "slack", tmp_path / "slack")
    for chat in ("Мира", "李雷"):
        folder = tmp_path / "messages/inbox" / chat
        folder.mkdir(parents=True)
        (folder / "message_1.json").write_text(
            '{"messages": [{"timestamp_ms": 1}], "thread_path": "inbox/a"}'
        )
    with pytest.raises(SeveralExports) as several:
        open_source(tmp_path, ImportOptions())
    found = {export.format: export.path for export in several.value.exports}
    assert found == {"slack": tmp_path / "slack", "messenger": tmp_path / "messages/inbox"}
    assert open_source(tmp_path, ImportOptions(), format="instagram").format == "instagram"
    assert open_source(tmp_path / "messages/inbox", ImportOptions()).size == 2 * 61


def test_a_damaged_or_encrypted_zip_is_refused_with_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "WhatsApp Chat - A.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("_chat.txt", "13/01/24, 10:00 - Ana: hi")
    raw = bytearray(path.read_bytes())
    path.write_bytes(raw.replace(b"Ana: hi", b"Ana: ho"))
    assert "cannot be read" in refusal(path)
    # the flag that says so, in the file's own header and in the directory's entry
    raw[6] |= 1
    raw[raw.index(b"PK\x01\x02") + 8] |= 1
    path.write_bytes(raw)
    assert "is encrypted" in refusal(path)


class Endless(io.RawIOBase):
    """A beginning, then the same again and again up to a size that no value has."""

    def __init__(self, begin: str, again: str) -> None:
        self._next = begin.encode()
        self._again = again.encode() * (64 * 1024 // len(again.encode()))
        self.given = 0

    def read(self, size: int = -1, /) -> bytes:
        while len(self._next) < size:
            self._next += self._again
        given, self._next = self._next[:size], self._next[size:]
        self.given += len(given)
        return given if self.given < 64 * 1024 * 1024 else b""


SAID = '{"id": 1, "type": "message", "date_unixtime": "1788256860", "from": "Ёлка", "from_id": "user1", "text": "да"}'


@pytest.mark.parametrize(
    ("begin", "again", "reason"),
    [
        ('{"id": 2, "text": [', "{},", "more than 200000 values"),
        ('{"id": 2, "', "مفتاح", "longer than"),
    ],
)
def test_a_message_of_endless_size_takes_no_memory_and_costs_no_message_before_it(
    begin: str, again: str, reason: str
) -> None:
    bomb = Endless(f'{{"name": "Ёлка", "type": "private_group", "id": 7, "messages": [{SAID}, {begin}', again)
    read = sort(telegram.parse(bomb, ImportOptions()))
    assert read.contents == ["да"]
    assert [(broken.breaks_off, reason in broken.reason) for broken in read.broken] == [(True, True)]
    assert bomb.given < 16 * 1024 * 1024


def test_a_zip_that_unpacks_to_a_hundred_times_its_size_is_refused_before_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "telegram.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("result.json", '{"messages": [' + "  \n" * (12 * 1024 * 1024) + "]}")
    with pytest.raises(
        InvalidInput, match=r"result\.json unpacks from .* bytes, more than 100 times .* unpack it"
    ):
        read_path(path)


def test_a_slack_day_of_millions_of_empty_objects_costs_that_day_alone(tmp_path: Path) -> None:
    path = tmp_path / "slack.zip"
    said = {"type": "message", "user": "U1", "ts": "1788256860.000100", "text": "日和"}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("channels.json", json.dumps([{"id": "C1", "name": "港"}]))
        archive.writestr("港/2026-09-01.json", "[" + "{}," * 6_000_000 + "{}]")
        archive.writestr("港/2026-09-02.json", json.dumps([said]))
    read = read_path(path)
    assert read.contents == ["日和"]
    assert [broken.breaks_off for broken in read.broken] == [True]
    assert "12,000,002 values; at most 10,000,000 are read" in read.broken[0].reason
