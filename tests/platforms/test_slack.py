"""A Slack workspace export comes in channel by channel, with people named and markup gone."""

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from pipeline.platforms import slack
from pipeline.platforms.records import ImportOptions
from pipeline.platforms.slack_text import plain
from tests.platforms.reading import FIXTURES, Read, read_path, sort


def read(files: dict[str, Any]) -> Read:
    raw = {
        name: value if isinstance(value, bytes) else json.dumps(value).encode()
        for name, value in files.items()
    }
    return sort(slack.parse(raw, raw.__getitem__, ImportOptions()))


def test_an_export_folder_is_read_whole() -> None:
    workspace = read_path("slack")
    assert [(chat.chat_id, chat.kind, chat.title) for chat in workspace.chats] == [
        ("slack:D200", "direct", "Ana, Ben Ode"),
        ("slack:C100", "group", "#general"),
        ("slack:G300", "group", "Ana, Ben Ode, Deploy Bot"),
    ]
    general = [record.message for record in workspace.records if record.chat_id == "slack:C100"]
    assert [message.content for message in general] == [
        "@Ben Ode see the deploy page (https://wiki.example/deploy) & tell #general @here",
        "Deploy on Friday",
        "Build 12 passed",
        "Deployed",
        "[document Plan.pdf]",
        "Happy new year",
    ]
    assert [message.role for message in general] == ["user", "user", "assistant", "assistant", "user", "user"]
    assert general[1].external_id == "1704051667.000300"
    assert general[1].sent_at.microsecond == 300
    assert general[1].metadata == {"thread_ts": "1704051667.000200", "edited_ts": "1704051700.000000"}
    assert [skipped.reason for skipped in workspace.skipped] == ["service message"]
    assert not workspace.broken


@pytest.mark.parametrize("folder", ["", "Harbour export/"])
def test_the_zip_reads_like_the_folder(tmp_path: Path, folder: str) -> None:
    path = tmp_path / "export.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in (FIXTURES / "slack").rglob("*.json"):
            # no entries for directories, as many tools write it, and the leavings of a Mac
            archive.write(file, folder + file.relative_to(FIXTURES / "slack").as_posix())
        archive.writestr(f"__MACOSX/{folder}._users.json", b"\x00\x05")
    zipped, plain_folder = read_path(path), read_path("slack")
    assert zipped.ids == plain_folder.ids
    assert zipped.chats == plain_folder.chats
    assert not zipped.broken


def test_where_says_the_file_and_the_place_in_it() -> None:
    assert read_path("slack").records[1].where == "general/2023-12-31.json, [1]"


def test_broken_days_and_messages_are_reported_and_the_rest_is_read() -> None:
    workspace = read(
        {
            "channels.json": [{"id": "C1", "name": "general"}],
            "users.json": {"not": "a list"},
            "general/2024-01-01.json": b"[{",
            "general/2024-01-02.json": [
                "what",
                {"ts": "soon", "text": "a"},
                {"ts": "1704103200.1", "text": "a"},
            ],
            "general/2024-01-03.json": [{"ts": "1704103200.000000", "user": "U1", "text": "fine"}],
        }
    )
    assert workspace.contents == ["fine"]
    assert [broken.where for broken in workspace.broken] == [
        "users.json",
        "general/2024-01-01.json",
        "general/2024-01-02.json, [0]",
        "general/2024-01-02.json, [1]",
        "general/2024-01-02.json, [2]",
    ]


def test_a_folder_that_no_list_names_is_read_and_said_so() -> None:
    workspace = read(
        {"channels.json": [], "old/2024-01-01.json": [{"ts": "1704103200.000000", "user": "U1", "text": "x"}]}
    )
    assert workspace.chats[0].chat_id == "slack:old"
    assert "old" in workspace.notices[0]


@pytest.mark.parametrize(
    ("markup", "text"),
    [
        ("<@U1> and <@U2|ben>", "@Ana and @ben"),
        ("<mailto:a@b.example|a@b.example>", "a@b.example"),
        ("<https://a.example>", "https://a.example"),
        ("<!subteam^S1|@crew> <!date^1700000000^{date}|14 November>", "@crew 14 November"),
        ("<#C1> &lt;tag&gt;", "#C1 <tag>"),
        ("1 < 2 > 0", "1 < 2 > 0"),
    ],
)
def test_markup_is_written_out(markup: str, text: str) -> None:
    assert plain(markup, {"U1": "Ana"}) == text
