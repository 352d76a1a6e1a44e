"""A channel that DiscordChatExporter saved comes in as it was said."""

import io
import json
from typing import Any

import pytest

from pipeline.platforms import discord as discord
from pipeline.platforms.records import ImportOptions
from tests.platforms.reading import Read, of_each_kind, read_path, require, sort

CHANNEL = "discord/Harbour - general [700].json"


def read(value: object, **options: str) -> Read:
    return sort(discord.parse_export(io.BytesIO(json.dumps(value).encode()), ImportOptions(**options)))  # type: ignore[arg-type]


def said(**fields: Any) -> dict[str, Any]:
    author = {"id": "801", "name": "ana", "nickname": "Ana", "isBot": False}
    base = {"id": "1", "type": "Default", "timestamp": "2024-01-01T10:00:00+00:00", "content": "hi"}
    return base | {"author": author} | fields


def channel(*messages: Any, kind: str = "GuildTextChat") -> dict[str, Any]:
    return {
        "guild": {"id": "600", "name": "Harbour"},
        "channel": {"id": "700", "type": kind, "name": "general"},
        "messages": list(messages),
    }


@of_each_kind("discord")
def test_what_becomes_of_a_message_depends_on_its_kind(example: dict[str, Any]) -> None:
    require(example, read(channel(example["message"])))


def test_a_channel_is_read_whole() -> None:
    general = read_path(CHANNEL)
    assert (general.chats[0].chat_id, general.chats[0].title) == ("discord:700", "Harbour #general")
    assert general.contents == [
        "When is high tide?",
        "High tide at 06:12",
        "Too early for me",
        "[document chart.pdf] [image]",
        "Tides\n06:12",
    ]
    assert general.messages[0].sent_at.isoformat() == "2023-12-31T20:41:07.123000+00:00"
    assert general.messages[0].sender_name == "Ana"
    assert general.messages[2].reply_to == "1190000000000000003"
    assert [n for n, message in enumerate(general.messages) if message.role == "assistant"] == [1, 4]
    assert not general.broken


def test_a_bots_card_is_text_and_of_a_links_preview_the_title_is() -> None:
    card = {
        "author": {"name": "ci"},
        "title": "Build 12 failed",
        "description": "on main, <@901> broke it",
        "fields": [
            {"name": "Branch", "value": "main", "isInline": True},
            {"name": "", "value": "2 min"},
            "odd",
        ],
    }
    bot = {"id": "900", "name": "CI", "isBot": True}
    mentions = [{"id": "901", "name": "zed", "nickname": "Zed"}]
    picture = {"image": {"url": "x"}}
    by_bot = said(id="1", author=bot, content="", embeds=[card, picture, 7], mentions=mentions)
    preview = said(id="2", content="look https://a.example", embeds=[card])
    general = read(channel(by_bot, preview, said(id="3", content="", embeds=[picture])))
    assert general.contents == [
        "ci\nBuild 12 failed\non main, @Zed broke it\nBranch: main\n2 min",
        "look https://a.example\n[link Build 12 failed]",
    ]
    assert [skipped.reason for skipped in general.skipped] == ["message without text"]


def test_people_are_named_where_an_export_leaves_their_numbers() -> None:
    zed = {"id": "901", "name": "zed", "nickname": "Zed"}
    general = read(
        channel(
            said(id="1", content="<@901> can you? <:wave:1234>", mentions=[zed]),
            # who has spoken or was mentioned before is known, somebody else is not
            said(id="2", content="yes <@!801>, <@901> can, <@999> cannot"),
        )
    )
    assert general.contents == ["@Zed can you? :wave:", "yes @Ana, @Zed can, <@999> cannot"]


def test_a_file_that_breaks_off_gives_what_came_before() -> None:
    whole = json.dumps(channel(said(id="1"), said(id="2"), said(id=""))).encode()
    cut = sort(discord.parse_export(io.BytesIO(whole[:-80]), ImportOptions()))
    assert cut.ids == ["1", "2"]
    assert [broken.breaks_off for broken in cut.broken] == [True]


def test_a_broken_message_is_reported_and_the_next_one_read() -> None:
    found = read(channel(said(author=None), said(timestamp="noon"), said(id=""), [], said(id="9")))
    assert found.ids == ["9"]
    assert len(found.broken) == 4
    assert found.broken[0].reason == "author.id is missing"
    assert "timestamp" in found.broken[1].reason


def forward(**snapshot: Any) -> dict[str, Any]:
    empty = {"content": "", "attachments": [], "embeds": [], "stickers": []}
    reference = {"type": "Forward", "messageId": "1", "channelId": "701", "guildId": "600"}
    forwarded = {"timestamp": "2026-02-20T09:00:00+00:00", "timestampEdited": None} | empty | snapshot
    return said(id="2", content="", reference=reference, forwardedMessage=forwarded)


@pytest.mark.parametrize(
    ("snapshot", "text"),
    [
        ({"content": "Стоянка стоит 340 € <:yakor:17>"}, "Стоянка стоит 340 € :yakor:"),
        ({"embeds": [{"title": "مد", "description": "٠٦:١٢"}]}, "مد\n٠٦:١٢"),
        (
            {"content": "https://a.example", "embeds": [{"title": "Příliv", "description": "dlouhý"}]},
            "https://a.example\n[link Příliv]",
        ),
    ],
)
def test_a_forwarded_message_is_kept_and_says_so_and_is_answered(snapshot: dict[str, Any], text: str) -> None:
    reply = {"type": "Default", "messageId": "2", "channelId": "700"}
    found = read(channel(said(), forward(**snapshot), said(id="3", type="Reply", reference=reply)))
    assert found.contents == ["hi", text, "hi"]
    assert [message.metadata.get("forwarded_from") for message in found.messages] == [None, "", None]
    assert [message.reply_to for message in found.messages] == [None, None, "2"]
    assert (found.skipped, found.unread) == ([], [])
