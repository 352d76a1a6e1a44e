"""No file makes a parser fall over: what is wrong is reported and the rest is read."""

import io
import json
from contextlib import suppress
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.platforms import discord as discord
from pipeline.platforms import jsonlines, messenger, signal
from pipeline.platforms import slack_export as slack
from pipeline.platforms import telegram_export as telegram
from pipeline.platforms.formats import BY_NAME, FORMATS, detect
from pipeline.platforms.records import ImportOptions
from pipeline.platforms.whatsapp import whatsapp_export as whatsapp
from schemas.errors import InvalidInput
from tests.platforms.reading import sort

OPTIONS = ImportOptions(chat_id="x:y", title="x")

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=5,
)


def objects(*names: str) -> st.SearchStrategy[dict[str, Any]]:
    """Objects with these keys, some missing, holding anything."""
    return st.fixed_dictionaries({}, optional=dict.fromkeys(names, json_values))


telegram_messages = objects(
    *"""id type date date_unixtime from from_id text photo file media_type poll location_information
    contact_information edited_unixtime reply_to_message_id rich_message todo_list invoice_information
    giveaway_information action items""".split(),
    "of a version to come",
).map(lambda message: {"type": "message", "id": 1, "from_id": "user1", "date_unixtime": "1"} | message)
discord_messages = objects(
    *"id type timestamp content author attachments embeds reference forwardedMessage poll new".split()
).map(lambda message: {"author": {"id": "1"}, "timestamp": "2024-01-01T00:00:00Z", "id": "1"} | message)
slack_messages = objects(
    "ts", "user", "bot_id", "text", "files", "attachments", "edited", "thread_ts", "subtype"
).map(lambda message: {"ts": "1704103200.000000", "user": "U1", "text": "x"} | message)
our_lines = objects(
    "type", "chat_id", "external_id", "sender_id", "content", "sent_at", "position", "metadata"
).map(lambda line: {"sender_id": "a:1", "content": "x", "sent_at": 0} | line)
messenger_messages = objects(
    *"sender_name timestamp_ms content photos files media share sticker type is_unsent".split()
).map(lambda message: {"sender_name": "李", "timestamp_ms": 1, "content": "x"} | message)
signal_frames = st.sampled_from(["account", "recipient", "chat", "chatItem"]).flatmap(
    lambda kind: (objects("id", "contact", "group", "self", "recipientId", "username") | json_values).map(
        lambda frame: {kind: frame}
    )
)
signal_items = objects("dateSent", "authorId", "revisions", "standardMessage", "poll", "hologram").map(
    lambda item: {"chatItem": {"chatId": "None", "dateSent": "1", "standardMessage": {}} | item}
)
starts = st.sampled_from(
    ["12/31/23, 9:41 PM - ", "[31/12/2023, 21:41:07] ", "99/99/9999, 99:99 - ", "\u200e["]
)


@given(st.lists(st.text() | st.builds(str.__add__, starts, st.text())))
def test_whatsapp_takes_any_lines(lines: list[str]) -> None:
    sort(whatsapp.parse(lines, OPTIONS))


@given(st.binary())
def test_json_parsers_take_any_bytes(raw: bytes) -> None:
    sort(telegram.parse(io.BytesIO(raw), OPTIONS))
    sort(discord.parse_export(io.BytesIO(raw), OPTIONS))
    sort(messenger.parse(io.BytesIO(raw), OPTIONS))
    sort(signal.parse(raw.decode("utf-8", "surrogateescape").splitlines(), OPTIONS))
    sort(slack.parse(["channels.json", "a/2024-01-01.json"], lambda _: raw, OPTIONS))
    sort(jsonlines.parse(raw.decode("utf-8", "surrogateescape").splitlines(), OPTIONS))


def few(messages: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Any]]:
    return st.lists(messages | json_values, max_size=5)


FEW = settings(max_examples=20)


@FEW
@given(few(telegram_messages), objects("name", "type", "id"))
def test_telegram_takes_any_json(messages: list[Any], header: dict[str, Any]) -> None:
    for whole in (header | {"messages": messages}, {"chats": {"list": [header | {"messages": messages}]}}):
        sort(telegram.parse(io.BytesIO(json.dumps(whole).encode()), OPTIONS))


@FEW
@given(few(discord_messages), few(messenger_messages), json_values)
def test_discord_and_messenger_take_any_json(chats: list[Any], threads: list[Any], header: Any) -> None:
    for parse, whole in (
        (discord.parse_export, {"channel": header, "messages": chats}),
        (
            messenger.parse,
            {"participants": header, "messages": threads, "title": header, "thread_path": header},
        ),
    ):
        sort(parse(io.BytesIO(json.dumps(whole).encode()), OPTIONS))


@FEW
@given(few(slack_messages), st.lists(json_values | objects("id", "name", "members")))
def test_slack_takes_any_json(messages: list[Any], index: list[Any]) -> None:
    files = {"channels.json": index, "users.json": index, "a/2024-01-01.json": messages}
    sort(slack.parse(files, lambda name: json.dumps(files[name]).encode(), OPTIONS))


@FEW
@given(few(our_lines), few(signal_frames | signal_items))
def test_lines_may_hold_any_json(ours: list[Any], signals: list[Any]) -> None:
    sort(jsonlines.parse(map(json.dumps, ours), OPTIONS))
    sort(signal.parse(map(json.dumps, signals), OPTIONS))


WORDS = """mapping message author role content create_time id parent children uuid name chat_messages text sender
    attachments files event_id type origin_server_ts room_id messages creator created_date message_id topic_id
    post direct_post channel user props replies create_at channel_members msg ts u _id rid tmid file
    parent_message_uuid current_node""".split()
wild = st.recursive(
    json_values,
    lambda inner: st.dictionaries(st.sampled_from(WORDS), inner, max_size=8) | st.lists(inner),
    max_leaves=12,
)


@FEW
@given(st.lists(wild, max_size=4), st.text())
def test_every_parser_takes_any_json_and_any_lines(values: list[Any], text: str) -> None:
    for declared in BY_NAME.values():
        for whole in (values, {"messages": values}, *values):
            raw = json.dumps(whole, default=str)
            if declared.of_bytes is not None:
                sort(declared.of_bytes(io.BytesIO(raw.encode()), OPTIONS))
            elif declared.of_lines is not None:
                sort(declared.of_lines([raw, text, "10:11\tA\t" + text], OPTIONS))


@given(st.text(), st.text())
def test_detection_names_a_format_or_says_what_to_do(name: str, head: str) -> None:
    with suppress(InvalidInput):
        assert detect(name, head) in FORMATS
