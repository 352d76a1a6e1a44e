"""Our own JSON Lines: what is missing is filled in, what is wrong is named."""

import json
from typing import Any

import pytest

from pipeline.platforms import jsonlines
from pipeline.platforms.records import ImportOptions
from tests.platforms.reading import Read, read_path, sort


def read(*lines: str, **options: str) -> Read:
    return sort(jsonlines.parse(lines, ImportOptions(**options)))  # type: ignore[arg-type]


def said(**fields: Any) -> str:
    return json.dumps(
        {"external_id": "1", "sender_id": "a:1", "content": "hi", "sent_at": "2024-05-01T09:00:00Z"} | fields
    )


def test_a_file_of_chats_and_messages_is_read_whole() -> None:
    garden = read_path("jsonl/garden.jsonl")
    assert [chat.chat_id for chat in garden.chats] == ["app:garden", "app:kitchen"]
    assert garden.chats[0].language == "english"
    assert [record.chat_id[4:] for record in garden.records] == ["garden", "garden", "kitchen", "garden"]
    assert garden.contents == ["Roses or figs?", "Figs", "Out of salt", "Noted: figs"]
    assert garden.messages[0].sent_at == garden.messages[0].sent_at.replace(hour=8)
    # no id and no offset: derived, and read on the chat's clock
    assert garden.messages[1].external_id.startswith("import:")
    assert garden.messages[1].sent_at.hour == 8
    # two messages of one instant
    assert [garden.messages[1].position, garden.messages[3].position] == [0, 1]
    assert not garden.broken


def test_the_chat_can_be_said_where_the_file_does_not_tell() -> None:
    chat = read(said(), chat_id="a:x", language="german", time_zone="Europe/Lisbon")
    assert chat.chats[0].chat_id == "a:x"
    assert (chat.chats[0].language, chat.chats[0].time_zone) == ("german", "Europe/Lisbon")


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("{", "is not JSON"),
        (said(sent_at="2024-05-01T09:00:00"), "no time zone"),
        (said(sent_at="9999-12-31T23:59:59-23:59"), "sent_at: is not a time that a calendar knows"),
        (said(colour="red"), "colour is not known"),
        (said(content="caf").replace("caf", b"caf\xe9".decode("utf-8", "surrogateescape")), "0xE9"),
        ("x" * 2_000_000, "longer than"),
    ],
)
def test_a_broken_line_is_named_with_its_reason_and_the_next_one_is_read(line: str, reason: str) -> None:
    chat = read(line, said(), chat_id="a:x")
    assert chat.ids == ["1"]
    assert chat.broken[0].where == "line 1"
    assert reason in chat.broken[0].reason
    assert "\n" not in chat.broken[0].reason


def test_a_row_that_is_nested_too_deeply_is_named_with_the_limit_and_the_next_line_is_read() -> None:
    row = '{"a": ' + "[" * 900 + "]" * 900 + "}"
    carried = f'{{"type": "row", "of": "chats", "row": {row}}}'
    told = read(carried, said(), chat_id="a:x")
    assert [(broken.where, broken.reason) for broken in told.broken] == [
        ("line 1", "row is nested deeper than 64 levels")
    ]
    assert told.contents == ["hi"]


def test_a_message_of_no_chat_says_what_to_do() -> None:
    assert "--chat" in read(said()).broken[0].reason


def test_a_file_that_ends_within_a_line_is_told_from_one_with_a_broken_line() -> None:
    assert [broken.breaks_off for broken in read("{", said(), chat_id="a:x").broken] == [False]
    assert [broken.breaks_off for broken in read(said(), said()[:40], chat_id="a:x").broken] == [True]
