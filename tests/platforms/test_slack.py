"""A Slack workspace export comes in channel by channel, with people named and markup gone."""

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from pipeline.platforms import slack_export as slack
from pipeline.platforms.records import ImportOptions
from pipeline.platforms.slack_export import plain_text
from tests.platforms.reading import FIXTURES, Read, of_each_kind, read_path, require, sort


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


def one_day(*messages: dict[str, Any], users: list[Any] | None = None) -> Read:
    said = [{"ts": f"1704103200.{n:06}", "user": "U1", **message} for n, message in enumerate(messages)]
    return read(
        {
            "channels.json": [{"id": "C1", "name": "general"}],
            "users.json": users or [],
            "general/2024-01-01.json": said,
        }
    )


@of_each_kind("slack")
def test_what_becomes_of_a_message_depends_on_its_kind(example: dict[str, Any]) -> None:
    require(example, one_day(example["message"]))


def test_the_clock_that_its_people_have_is_named_for_who_did_not_say_one() -> None:
    zones = ["Europe/Berlin", "Europe/Berlin", "Asia/Tokyo"]
    day = one_day({"text": "a"}, users=[{"id": f"U{n}", "tz": zone} for n, zone in enumerate(zones)])
    assert "2 of 3 people are in Europe/Berlin: say --tz Europe/Berlin" in day.times[0]


@pytest.mark.parametrize(
    ("markup", "text"),
    [
        ("<@U1> and <@U2|ben>", "@Ana and @ben"),
        ("<!subteam^S1|@crew> <!date^1700000000^{date}|14 November>", "@crew 14 November"),
        ("<#C1> &lt;tag&gt;", "#C1 <tag>"),
        ("1 < 2 > 0", "1 < 2 > 0"),
    ],
)
def test_markup_is_written_out(markup: str, text: str) -> None:
    assert plain_text(markup, {"U1": "Ana"}) == text


# Two workspaces have each a channel of one name, and share another; some are in no list of their workspace.
GRID = json.loads((FIXTURES / "slack-grid.json").read_text("utf-8"))


def test_a_grid_is_read_with_every_workspace_and_all_names(tmp_path: Path) -> None:
    path = tmp_path / "grid.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for name, value in GRID.items():
            archive.writestr(f"Orga nisation/{name}", json.dumps(value, ensure_ascii=False))
    grid = read_path(path)
    assert {(chat.chat_id, chat.kind, chat.title) for chat in grid.chats} == {
        ("slack:D1", "direct", "Анна Ким, 陈伟"),
        ("slack:C9", "group", "#общий"),
        ("slack:C1", "group", "#general"),
        ("slack:C2", "group", "#general"),
        ("slack:C7", "group", "#合同"),
        ("slack:G3", "group", "#مدير"),
        ("slack:المصنع/old", "group", "#old"),
    }
    assert {(r.chat_id, r.message.sender_name, r.message.role, r.message.content) for r in grid.records} == {
        ("slack:D1", "陈伟", "user", "今晚吃饺子吗?"),
        ("slack:C9", "Анна Ким", "user", "Собрание в среду"),
        ("slack:C9", "Анна Ким", "user", "Среда отменена"),
        ("slack:C1", "Đặng Thị Hoa 🌸", "user", "Tàu vào cảng lúc sáu giờ"),
        ("slack:C2", "ليلى", "assistant", "الرافعة متوقفة اليوم"),
        ("slack:C7", "陈伟", "user", "合同签好了"),
        ("slack:G3", "Анна Ким", "user", "@陈伟 спасибо"),
        ("slack:المصنع/old", "陈伟", "user", "旧的"),
    }
    # what two workspaces share has one id, by which it is stored once
    assert {record.message.external_id for record in grid.records if record.chat_id == "slack:C7"} == {
        "1772359300.000200"
    }
    assert not grid.broken
    assert ["old" in notice for notice in grid.notices] == [True]


def test_a_shared_message_stays_with_the_comment_on_it_and_is_nobody_elses_words() -> None:
    shared = {"is_share": True, "author_name": "ليلى", "text": "الإيجار 340 يورو\nفي السنة", "fallback": "x"}
    day = one_day(
        {"text": "看这个", "attachments": [shared]},
        {
            "text": "см. <https://a.example/archives/C2/p1>",
            "attachments": [{"is_msg_unfurl": True, "text": "да"}],
        },
        {"text": "", "attachments": [shared]},
        {"text": "", "attachments": [{"title": "Карта", "fallback": "карта"}]},
    )
    assert day.contents == [
        "看这个\n> ليلى: الإيجار 340 يورو\n> في السنة",
        "см. https://a.example/archives/C2/p1\n> да",
        "الإيجار 340 يورو\nفي السنة",
        "Карта",
    ]
    assert [message.metadata for message in day.messages] == [{}, {}, {"forwarded_from": "ليلى"}, {}]


def test_an_app_without_an_id_is_no_user_and_nobody_of_another_channel() -> None:
    app = {"user": None, "subtype": "bot_message", "username": "潮汐 Bot", "text": "高潮 14:20 🌊"}
    files = {
        "channels.json": [{"id": "C1", "name": "порт"}, {"id": "C2", "name": "港"}],
        **{f"{name}/2026-03-01.json": [app | {"ts": "1772359201.000100"}] for name in ("порт", "港")},
    }
    messages = read(files).messages
    assert [(message.role, message.sender_name) for message in messages] == [("assistant", "潮汐 Bot")] * 2
    assert len({message.sender_id for message in messages}) == 2


def test_other_files_of_an_export_are_counted_or_named() -> None:
    files = {
        "channels.json": [{"id": "C1", "name": "порт"}],
        "порт/2026-03-01.json": [{"user": "U1", "ts": "1772359201.000100", "text": "ок"}],
        "canvases.json": [{"id": "F1", "title": "План"}, {"id": "F2"}],
        "integration_logs.json": [{"app_id": 1}],
        "заметки.json": [],
    }
    workspace = read(files)
    assert [item.reason for item in workspace.skipped] == ["kind that Slack does not export"] * 2
    assert [notice.partition(" ")[0] for notice in workspace.notices] == ["заметки.json"]
    assert (workspace.contents, workspace.unread, workspace.broken) == (["ок"], [], [])
