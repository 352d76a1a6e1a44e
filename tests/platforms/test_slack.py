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
    assert (general[1].reply_to, general[1].thread) == ("1704051667.000200", None)
    assert general[1].metadata == {"edited_ts": "1704051700.000000"}
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


def one_day(*messages: dict[str, Any], users: list[Any] | None = None) -> Read:
    said = [{"ts": f"1704103200.{n:06}", "user": "U1", **message} for n, message in enumerate(messages)]
    return read(
        {
            "channels.json": [{"id": "C1", "name": "general"}],
            "users.json": users or [],
            "general/2024-01-01.json": said,
        }
    )


def test_what_stands_in_blocks_alone_is_text() -> None:
    blocks = [
        {"type": "header", "text": {"type": "plain_text", "text": "Deploy 12"}},
        {
            "type": "rich_text",
            "elements": [
                {
                    "type": "rich_text_section",
                    "elements": [
                        {"type": "text", "text": "by "},
                        {"type": "user", "user_id": "U1"},
                        {"type": "emoji", "name": "tada"},
                    ],
                },
                {
                    "type": "rich_text_list",
                    "elements": [
                        {
                            "type": "rich_text_section",
                            "elements": [{"type": "link", "url": "https://a.example", "text": "log"}],
                        },
                        {"type": "rich_text_section", "elements": [{"type": "text", "text": "all green"}]},
                    ],
                },
            ],
        },
        {
            "type": "section",
            "text": {"type": "mrkdwn", "text": "took 3 min"},
            "fields": [{"type": "mrkdwn", "text": "*Env* prod"}],
        },
        {
            "type": "context",
            "elements": [{"type": "mrkdwn", "text": "by CI"}, {"type": "image", "alt_text": "logo"}],
        },
        {"type": "divider"},
        "odd",
    ]
    users = [{"id": "U1", "name": "ana", "profile": {"display_name": "Ana"}}]
    day = one_day(
        {"text": "", "blocks": blocks, "bot_id": "B1", "subtype": "bot_message"},
        {"text": "This content can't be displayed.", "blocks": blocks[:1]},
        {"text": "", "blocks": [{"type": "divider"}]},
        users=users,
    )
    assert day.contents == [
        "Deploy 12\nby @Ana:tada:\nlog (https://a.example)\nall green\ntook 3 min\n*Env* prod\nby CI logo",
        "Deploy 12",
    ]
    assert [skipped.reason for skipped in day.skipped] == ["message without text"]


def test_what_apps_attach_is_text_and_of_a_links_preview_the_title_is() -> None:
    attached = {
        "pretext": "New issue",
        "title": "Pump leaks",
        "text": "since May",
        "fields": [{"title": "Priority", "value": "High"}],
        "fallback": "not shown",
    }
    day = one_day(
        {"text": "from the tracker", "bot_id": "B1", "attachments": [attached]},
        {"text": "see <https://a.example>", "attachments": [attached]},
        {"text": "", "bot_id": "B1", "attachments": [{"fallback": "Build 12 passed"}]},
    )
    assert day.contents == [
        "from the tracker\nNew issue\nPump leaks\nsince May\nPriority: High",
        "see https://a.example\n[link Pump leaks]",
        "Build 12 passed",
    ]


def test_the_clock_that_its_people_have_is_named_for_who_did_not_say_one() -> None:
    users = [
        {"id": f"U{n}", "tz": zone} for n, zone in enumerate(["Europe/Berlin", "Europe/Berlin", "Asia/Tokyo"])
    ]
    assert (
        "2 of 3 people are in Europe/Berlin: say --tz Europe/Berlin"
        in one_day({"text": "a"}, users=users).times[0]
    )
    assert "say --tz" in one_day({"text": "a"}).times[0]


def test_a_day_that_cannot_be_read_means_that_something_is_missing() -> None:
    files = {"channels.json": [{"id": "C1", "name": "general"}], "general/2024-01-01.json": b'[{"ts": "17'}
    assert [broken.breaks_off for broken in read(files).broken] == [True]
    assert not any(broken.breaks_off for broken in one_day({"ts": "soon", "text": "a"}).broken)


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
