"""Parse Rocket.Chat's messages as JSON: a room's export, what its API lists, or a dump of its database."""

import io
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import IO, Any, cast

from pipeline.platforms import contents, fields, json_stream, jsonlines
from pipeline.platforms.fields import dict_of, dicts_of, text_of
from pipeline.platforms.platform import HEAD_CHARS, ExportFormat, Shape
from pipeline.platforms.records import Broken, ImportOptions, Parsed, Skipped, Unread

# the link to the message that is answered, before the text
_QUOTE = re.compile(r"\[ ?\]\(\S*?[?&]msg=(?P<id>[\w-]+)\)\s*")
_WRITTEN = ("", "rm", "e2e", "discussion-created", "videoconf")


class _Again:
    """A stream of which the beginning has been read."""

    def __init__(self, head: bytes, rest: IO[bytes]) -> None:
        self._head, self._rest = io.BytesIO(head), rest

    def read(self, size: int) -> bytes:
        return self._head.read(size) or self._rest.read(size)


def parse(stream: IO[bytes], options: ImportOptions) -> Iterator[Parsed]:
    """Parse rooms and messages; `command.chat_id` or `title` name the room if the messages do not."""
    head = stream.read(HEAD_CHARS)
    found = json_stream.keys(io.BytesIO(head))
    path = next((path for path in ("messages.item", "item") if "msg" in found.get(path, ())), "")
    again = cast("IO[bytes]", _Again(head, stream))
    reader, seen = jsonlines.Reader(replace(options, chat_id=None)), set[str]()
    for item in json_stream.walk(again, {path: ""}, several=not path):
        if isinstance(item, Broken):
            yield item
            continue
        raw, where = dict_of(item.value), f"[{item.index}]"
        room = fields.name_of(options.chat_id, raw.get("rid"), options.title)
        if not room:
            yield Broken(where=where, reason="nothing says which chat this is: name it with --chat")
            return
        chat_id = fields.with_platform("rocketchat", room)
        if chat_id not in seen:
            seen.add(chat_id)
            yield from reader.read_chat(where, chat_id, "rocketchat", options.title or "")
        # a system message has a type
        kind = str(raw.get("t") or raw.get("type") or "")
        if kind not in _WRITTEN or raw.get("_hidden"):
            yield Skipped(where=where, reason="deleted message" if raw.get("_hidden") else "service message")
        elif kind == "e2e":
            yield Unread(where=where, platform="Rocket.Chat", kind="encrypted message")
        else:
            yield from _message(raw, where, chat_id, reader)


def _message(raw: dict[str, Any], where: str, chat_id: str, reader: jsonlines.Reader) -> Iterator[Parsed]:
    person, thread = dict_of(raw.get("u")), text_of(raw.get("tmid")) or None
    name = fields.name_of(person.get("username"), raw.get("username"))
    key = fields.name_of(person.get("_id"), name)
    text = text_of(raw.get("msg"))
    quoted = _QUOTE.match(text)
    attached = dicts_of(raw.get("attachments"))
    # what is quoted stands there, too
    texts = [
        contents.words({name: item.get(name) for name in ("title", "text", "description")})
        for item in attached
        if not item.get("message_link") and not item.get("title_link")
    ]
    captions = [text_of(item.get("description")) for item in attached if item.get("title_link")]
    files = dicts_of(raw.get("files")) or dicts_of([raw.get("file")])
    if not files:
        files = [{"name": item.get("title")} for item in attached if item.get("title_link")]
    edited = _time(raw.get("editedAt"))
    # of an export that names nobody but by username, and no message
    own = {"external_id": raw["_id"]} if text_of(raw.get("_id")) else {}
    yield from reader.read_message(
        where,
        text="\n".join(filter(None, [text[quoted.end() :] if quoted else text, *texts, *captions])),
        media=fields.file_attachments([file.get("name") or file.get("type") for file in files]),
        metadata={"edited_at": str(edited)} if edited else {},
        chat_id=chat_id,
        sender_id=key and f"rocketchat:{key}",
        sender_name=fields.name_of(raw.get("alias"), person.get("name"), name),
        role="assistant" if raw.get("bot") else "user",
        sent_at=_time(raw.get("ts")),
        reply_to=quoted["id"] if quoted else thread,
        thread=thread,
        **own,
    )


def _time(value: object) -> Any:
    """Return a time as its dumps write it, `{"$date": …}`, or as it is."""
    while isinstance(value, dict):
        value = value.get("$date", value.get("$numberLong"))
    return int(value) if isinstance(value, str) and value.isdecimal() else value


_KEYS = "msg ts u|username"
FORMAT = ExportFormat(
    name="rocketchat",
    of_bytes=parse,
    several=True,
    looks=tuple(Shape(keys={path: _KEYS}) for path in ("", "item", "messages.item")),
)
