"""A channel that DiscordChatExporter saved comes in as it was said."""

import io
import json
from typing import Any

from pipeline.platforms import discord
from pipeline.platforms.records import ImportOptions
from tests.platforms.reading import Read, read_path, sort

CHANNEL = "discord/Harbour - general [700].json"


def read(value: object, **options: str) -> Read:
    return sort(discord.parse(io.BytesIO(json.dumps(value).encode()), ImportOptions(**options)))  # type: ignore[arg-type]


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


def test_a_channel_is_read_whole() -> None:
    general = read_path(CHANNEL)
    assert (general.chats[0].chat_id, general.chats[0].title) == ("discord:700", "Harbour #general")
    assert general.contents == [
        "When is high tide?",
        "High tide at 06:12",
        "Too early for me",
        "[document chart.pdf] [image]",
    ]
    assert general.messages[0].sent_at.isoformat() == "2023-12-31T20:41:07.123000+00:00"
    assert general.messages[0].sender_name == "Ana"
    assert general.messages[2].metadata["reply_to"] == "1190000000000000003"
    assert not general.broken


def test_what_bots_wrote_is_the_assistants() -> None:
    assert [message.role for message in read_path(CHANNEL).messages] == ["user", "assistant", "user", "user"]


def test_joining_and_embeds_alone_are_counted_and_left_out() -> None:
    reasons = [skipped.reason for skipped in read_path(CHANNEL).skipped]
    assert reasons == ["service message", "embeds alone", "service message"]


def test_direct_chats_and_threads_are_told_apart() -> None:
    kinds = {"DirectTextChat": "direct", "DirectGroupTextChat": "group", "GuildPublicThread": "thread"}
    assert {name: read(channel(said(), kind=name)).chats[0].kind for name in kinds} == kinds


def test_a_broken_message_is_reported_and_the_next_one_read() -> None:
    read_channel = read(
        channel(
            said(author=None), said(timestamp="noon"), said(timestamp=None), said(id=""), [], said(id="9")
        )
    )
    assert read_channel.ids == ["9"]
    assert len(read_channel.broken) == 5
    assert read_channel.broken[0].reason == "author.id is missing"
    assert "timestamp" in read_channel.broken[1].reason


def test_a_channel_without_an_id_is_reported() -> None:
    nameless = read({"messages": [said()]})
    assert "no usable id" in nameless.broken[0].reason
    assert read({"messages": [said()]}, chat_id="discord:1").ids == ["1"]
