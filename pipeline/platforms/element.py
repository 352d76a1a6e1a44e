"""Parse the JSON that Element exports of a room: events of Matrix, with edits and names beside them."""

from collections.abc import Iterator
from dataclasses import replace
from typing import IO, Any

from pydantic import ValidationError

from pipeline.platforms import fields, json_stream, matrix
from pipeline.platforms.fields import dict_of
from pipeline.platforms.records import Broken, ImportOptions, Parsed, Record, Skipped, Unread
from pipeline.platforms.shapes import ExportFormat, Shape


def parse(stream: IO[bytes], options: ImportOptions) -> Iterator[Parsed]:
    """Parse the room and its messages; `command.chat_id` replaces the room's own id."""
    events: list[tuple[str, dict[str, Any]]] = []
    header: Any = {}
    for item in json_stream.walk(stream, {"messages.item": ""}):
        if isinstance(item, Broken):
            yield item
        elif isinstance(item.value, dict):
            header = item.header
            events.append((f"messages[{item.index}]", item.value))
        else:
            yield Broken(where=f"messages[{item.index}]", reason="is no JSON object")
    room = next((event["room_id"] for _, event in events if isinstance(event.get("room_id"), str)), "")
    try:
        title = fields.name_of(header.get("room_name"))
        chat = fields.chat_of("matrix", options.chat_id or (room and f"matrix:{room}"), options, title=title)
    except ValidationError as error:
        yield Broken(where="the room", reason=f"has no usable id: {fields.sentence(error)}")
        return
    yield chat
    yield fields.exact_times("from the homeserver", chat.time_zone)
    names, edits = dict(_names(events)), _edits(events)
    for where, event in events:
        new = edits.get((str(event.get("event_id")), str(event.get("sender"))))
        if new is None:
            new = _edit_of(dict_of(event, "unsigned", "m.relations", "m.replace"), by=event.get("sender"))
        content = dict_of(event.get("content"))
        if new:
            content = {**new[1], "m.relates_to": dict_of(content.get("m.relates_to"))}
        if dict_of(content.get("m.relates_to")).get("rel_type") == "m.replace":
            yield Skipped(where=where, reason="edit of another message")
            continue
        for read in matrix.parse({"room_id": room, **event, "content": content}):
            if isinstance(read, Record):
                metadata = read.message.metadata | ({"edited_at": str(new[0])} if new else {})
                known = names.get(str(event.get("sender"))) or read.message.sender_name
                message = read.message.model_copy(update={"sender_name": known, "metadata": metadata})
                yield replace(read, chat_id=chat.chat_id, where=where, message=message)
            elif isinstance(read, Unread | Broken | Skipped):
                yield replace(read, where=where)
            elif not hasattr(read, "time_zone"):
                # somebody came or left, or a message was deleted
                yield Skipped(where=where, reason="service message")


_Edit = tuple[object, dict[str, Any]]


def _edit_of(event: dict[str, Any], by: object) -> _Edit | None:
    """Return the time and content of an edit, if whoever wrote the message made it."""
    new = dict_of(event, "content", "m.new_content")
    return (event.get("origin_server_ts"), new) if new and event.get("sender") == by else None


def _edits(events: list[tuple[str, dict[str, Any]]]) -> dict[tuple[str, str], _Edit]:
    """Return the latest edit of messages, by their id and who made it."""
    found = {}
    for _, event in events:
        relation = dict_of(event, "content", "m.relates_to")
        if relation.get("rel_type") == "m.replace" and (edit := _edit_of(event, by=event.get("sender"))):
            found[str(relation.get("event_id")), str(event.get("sender"))] = edit
    return found


def _names(events: list[tuple[str, dict[str, Any]]]) -> Iterator[tuple[str, str]]:
    for _, event in events:
        content = dict_of(event.get("content"))
        if event.get("type") == "m.room.member" and (name := fields.name_of(content.get("displayname"))):
            yield str(event.get("state_key")), name


FORMAT = ExportFormat(
    name="element",
    of_bytes=parse,
    looks=(
        Shape(keys={"": "messages", "messages.item": "event_id origin_server_ts type"}),
        Shape(keys={"": "room_name messages exported_by|export_date"}),
    ),
)
