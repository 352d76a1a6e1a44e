"""Parse our own formats: JSON Lines with a chat or message on each, and Standard Webhooks that hold our payloads.

    {"type": "chat", "chat_id": "app:garden", "title": "Garden", "time_zone": "Europe/Lisbon"}
    {"sender_id": "app:7", "sender_name": "Ana", "content": "Roses?", "sent_at": "2024-05-01T09:00:00+01:00"}

A message belongs to the `chat_id` on its line, else to the chat line above it, else to `--chat`. A missing
`external_id` is derived (see `identity`), a missing `position` counts the messages of one chat and time, and a
`sent_at` without an offset is read by the clock of `--tz` or the chat's `time_zone`. What `backscroll export` writes
also has lines of the type `row`.
"""

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any
from zoneinfo import ZoneInfo

from pydantic import ValidationError

from pipeline.platforms import fields
from pipeline.platforms.identity import ImportIds, Positions
from pipeline.platforms.platform import ExportFormat, Shape
from pipeline.platforms.records import (
    MAX_KIND_CHARS,
    NO_TEXT,
    Broken,
    Carried,
    Deletion,
    Edit,
    Event,
    ImportOptions,
    Notice,
    Parsed,
    Record,
    Skipped,
    Times,
    Unread,
)
from schemas.base import FROM_PLATFORM
from schemas.errors import InvalidInput
from schemas.masking import MAX_JSON_DEPTH, masked_json
from schemas.messages import ChatIn, MessageIn, written
from schemas.payloads import DeletionEvent, EditEvent, QueuedIngest, parse_payload

_WHICH_CHAT = "chat_id is missing: put it on the line, on a chat line above, or say --chat"


def parse(lines: Iterable[str], options: ImportOptions) -> Iterator[Parsed]:
    """Parse chats and messages from the lines of the file, skipping blank lines."""
    yield from read_objects(lines, Reader(options).read)


def read_objects(
    lines: Iterable[str], read: Callable[[dict[str, Any], str], Iterator[Parsed]]
) -> Iterator[Parsed]:
    """Yield what is read of the object on each line; a file that breaks off does not end with a complete line."""
    cut: Broken | None = None
    for number, raw in enumerate(lines, start=1):
        line = raw.strip().removeprefix("\ufeff")
        if not line:
            continue
        where = f"line {number}"
        if cut is not None:
            yield cut
            cut = None
        try:
            raw_object = object_of(line)
        except NotJson as error:
            cut = Broken(where=where, reason=str(error))
        except (ValueError, RecursionError) as error:
            yield Broken(where=where, reason=str(error))
        else:
            yield from read(raw_object, where)
    if cut is not None:
        yield replace(cut, breaks_off=True)


class NotJson(ValueError):
    """A line is not JSON; the message says where."""


class Reader:
    """Reads objects with the fields of chats and messages; keeps the chats so far, for messages without theirs."""

    def __init__(self, options: ImportOptions) -> None:
        self._options = options
        self._current = options.chat_id
        self._zones: dict[str, ZoneInfo | None] = {}
        self._ids = ImportIds()
        self._positions = Positions()
        # the notices given so far on how times are read
        self._said_times: set[bool] = set()

    def read(self, raw: dict[str, Any], where: str) -> Iterator[Parsed]:
        """Read an object, or report what is wrong with it."""
        try:
            match raw.pop("type", "message"):
                case "chat":
                    yield self._chat(raw)
                case "message":
                    yield from self._message(raw, where)
                case "row":
                    row, of = masked_json(raw.get("row"), "row", MAX_JSON_DEPTH, written), raw.get("of")
                    if isinstance(row, dict) and isinstance(of, str):
                        yield Carried(where=where, of=of, row=row)
                    else:
                        yield Broken(where=where, reason="of or row is missing")
                case other:
                    reason = f"type {other!r} is neither 'chat' nor 'message'"
                    yield Broken(where=where, reason=reason)
        except ValidationError as error:
            yield Broken(where=where, reason=fields.sentence(error))
        except ValueError as error:
            yield Broken(where=where, reason=str(error))

    def read_chat(
        self,
        where: str,
        chat_id: str,
        platform: str,
        title: str,
        *,
        grouped: bool | None = None,
        by_clock: bool = False,
    ) -> Iterator[Parsed]:
        """Read another platform's chat, which is known to be a group or not; its times may have no zone."""
        if by_clock and self._options.zone_name(chat_id) is None:
            self._options = replace(self._options, time_zone="UTC")
            yield Notice(text="The times have no zone; they are read as UTC. Say --tz, as in Europe/Lisbon.")
        kind = None if grouped is None else "group" if grouped else "direct"
        chat = {
            "chat_id": chat_id,
            "platform": platform,
            "title": title or None,
            "kind": kind,
        }
        yield from self.read({"type": "chat", **chat}, where)

    def read_message(
        self, where: str, *, text: str, media: list[dict[str, str]], **message: Any
    ) -> Iterator[Parsed]:
        """Read another platform's message, unless it is empty; `message` are its other fields."""
        if content := fields.with_media(text, media):
            metadata = message.get("metadata", {}) | ({"media": media} if media else {})
            body = {"content": content, "metadata": metadata}
            yield from self.read(message | body, where)
        else:
            yield Skipped(where=where, reason=NO_TEXT)

    def _chat(self, raw: dict[str, Any]) -> ChatIn:
        chat = ChatIn.model_validate(
            {
                **raw,
                "time_zone": self._zone_name(raw),
                "language": raw.get("language") or self._options.language,
                "kind": self._options.kind or raw.get("kind"),
            },
            context=FROM_PLATFORM,
        )
        self._current = chat.chat_id
        self._zones[chat.chat_id] = ZoneInfo(chat.time_zone) if chat.time_zone else None
        return chat

    def _zone_name(self, raw: dict[str, Any]) -> Any:
        chat_id = raw.get("chat_id")
        zone = raw.get("time_zone") or self._options.time_zone
        return zone or (self._options.zone_name(chat_id) if isinstance(chat_id, str) else None)

    def _message(self, raw: dict[str, Any], where: str) -> Iterator[Parsed]:
        # where a Backscroll was when it wrote the line
        raw.pop("at", None)
        chat_id = raw.pop("chat_id", None) or self._current
        if not isinstance(chat_id, str):
            raise ValueError(_WHICH_CHAT)  # noqa: TRY004  what the line lacks is a value
        if chat_id not in self._zones:
            current = self._current
            yield self._chat({"chat_id": chat_id})
            # only a chat line names the chat of what follows
            self._current = current
        sent_at, sender = raw.get("sent_at"), raw.get("sender_id")
        if "external_id" not in raw:
            parts = f"{chat_id} {sender}", str(sent_at), str(raw.get("content"))
            raw["external_id"] = self._ids.names(*parts)[0]
        zone = self._zones.get(chat_id)
        raw["sent_at"] = _with_zone(sent_at, zone)
        by_clock = isinstance(raw["sent_at"], datetime) and raw["sent_at"].tzinfo is zone
        if sent_at is None:
            del raw["sent_at"]
        message = MessageIn.model_validate(raw, context=FROM_PLATFORM)
        if "position" not in raw:
            position = self._positions.next((chat_id, message.sent_at))
            message = message.model_copy(update={"position": position})
        if by_clock not in self._said_times:
            self._said_times.add(by_clock)
            yield Times(text=_times(zone, by_clock=by_clock))
        yield Record(chat_id=chat_id, message=message, where=where, by_clock=by_clock)


def _times(zone: ZoneInfo | None, *, by_clock: bool) -> str:
    if by_clock:
        return f"read by the clock of {zone} where they come without an offset"
    shown = f"by the clock of {zone}" if zone else "in UTC: say --tz, as in Europe/Lisbon"
    return f"exact where they come with an offset or as Unix times; shown {shown}"


def object_of(line: str) -> dict[str, Any]:
    """Return the object on a line. Raises `ValueError` with the reason if there is none."""
    if problem := fields.unreadable(line):
        raise ValueError(problem)
    try:
        value = json.loads(line)
    except json.JSONDecodeError as error:
        raise NotJson(f"is not JSON: {error.msg} at column {error.colno}") from error
    if isinstance(value, dict):
        return value
    raise ValueError("is no JSON object in braces")


def _with_zone(sent_at: object, zone: ZoneInfo | None) -> object:
    if isinstance(sent_at, str) and zone is not None:
        try:
            local = datetime.fromisoformat(sent_at.strip())
        except ValueError:
            # numbers, and what the message's own check words better
            return sent_at
        return local if local.tzinfo else local.replace(tzinfo=zone)
    return sent_at


def parse_webhook(value: Any) -> Iterator[Event]:
    """Parse a webhook: `message.created` with the body of `POST /v1/messages`, `message.edited`, `message.deleted`.

    Raises `InvalidInput` for data that is none of these, and for anything else.
    """
    kind = value.get("type") if isinstance(value, dict) else None
    if not isinstance(kind, str) or not kind:
        raise InvalidInput("the body is no standard webhook: type is missing", field="type")
    data = value.get("data")
    match kind:
        case "message.created":
            listed = fields.dict_of(data).get("messages") or None
            messages = listed if isinstance(listed, list) else [listed]
            yield from fields.each_of(messages, "data.messages", partial(_message, data))
        case "message.edited":
            edit = parse_payload(EditEvent, data, FROM_PLATFORM)
            yield Edit(where="data", **edit.model_dump(exclude={"v"}))
        case "message.deleted":
            gone = parse_payload(DeletionEvent, data)
            yield Deletion(where="data", by=gone.sender_id, **gone.model_dump(exclude={"sender_id"}))
        case _:
            # what else their sender tells others is no message
            new = kind.startswith("message.")
            yield (
                Unread(where="type", platform="standard", kind=kind[:MAX_KIND_CHARS], known=False)
                if new
                else fields.not_kept("type", kind)
            )


def _message(data: dict[str, Any], raw: dict[str, Any], where: str) -> Iterator[Event]:
    payload = QueuedIngest.model_validate(data | {"messages": raw}, context=FROM_PLATFORM)
    if payload.tenant is not None:
        raise InvalidInput(
            "data.tenant: whose the messages are is decided otherwise; leave it out", field="tenant"
        )
    yield payload.chat
    yield Record(chat_id=payload.chat.chat_id, message=payload.messages[0], where=where)


FORMAT = ExportFormat(
    name="jsonl",
    of_lines=parse,
    loose=True,
    looks=(
        Shape(keys={"": "content|chat_id|sender_id"}, head=r"\A\{"),
        Shape(keys={"": "type"}, head=r'\A\{[^{]*"type"\s*:\s*"(?:chat|message|row)"'),
        Shape(head=r"\A\{", name=r"(?i)\.(?:jsonl|ndjson)$"),
    ),
)
