"""Parse a chat of Messenger or Instagram, from *Download your information* or of end-to-end encrypted chats, as JSON.

People have only names. Meta writes each byte of UTF-8 as a character of its own, which is mended in every text.
"""

from collections.abc import Iterator
from functools import partial
from typing import IO, Any

from pipeline.platforms import fields, json_stream, jsonlines, kinds
from pipeline.platforms.identity import sender_by_name
from pipeline.platforms.platform import ExportFormat, Shape
from pipeline.platforms.records import Broken, ImportOptions, Parsed

_KINDS = kinds.load("messenger")
# fields that say by being there, or true, that nobody wrote the message
_TELLING = ("is_unsent", "isUnsent", "is_taken_down", "call_duration", "users", "plan")
_MEDIA = {"photos": "image", "gifs": "image", "videos": "video", "audio_files": "audio", "sticker": "sticker"}


def parse(stream: IO[bytes], options: ImportOptions, platform: str = "messenger") -> Iterator[Parsed]:
    """Parse the chat and its messages; `command.chat_id` or `title` name it if the file does not."""
    people: list[str] = []
    messages: list[tuple[str, dict[str, Any]]] = []
    header: Any = {}
    for item in json_stream.walk(stream, {"messages.item": "", "participants.item": ""}):
        if isinstance(item, Broken):
            yield item
            continue
        # in the end it holds what stands behind the messages, too
        header, value, where = item.header, _mended(item.value), f"messages[{item.index}]"
        if name := fields.name_of(value, fields.dict_of(value).get("name")):
            people.append(name)
        elif isinstance(value, dict) and value:
            messages.append((where, value))
        else:
            yield Broken(where=where, reason="is no JSON object with a message in it")
    thread = _mended(fields.name_of(header.get("thread_path"), header.get("threadName")))
    title = _mended(fields.name_of(header.get("title"))) or options.title or ", ".join(people)
    chat_id = options.chat_id or thread.rpartition("/")[2] or options.title
    if not chat_id:
        yield Broken(where="the file", reason="nothing says which chat this is: name it with --chat")
        return
    chat_id = fields.with_platform(platform, chat_id)
    reader = jsonlines.Reader(options)
    grouped = len(people) > 2 or header.get("thread_type") == "RegularGroup" or "joinable_mode.mode" in header
    yield from reader.read_chat("the chat", chat_id, platform, title, grouped=grouped)
    for where, raw in messages:
        telling = next((field for field in _TELLING if raw.get(field)), None)
        unknown = next((field for field in raw if field not in _KINDS.fates), None)
        name = fields.name_of(raw.get("sender_name"), raw.get("senderName"))
        media = [
            fields.attachment(kind, "") for field, kind in _MEDIA.items() for _ in _listed(raw.get(field))
        ]
        files = [item.get("uri") for field in ("files", "media") for item in _listed(raw.get(field))]
        message = reader.read_message(
            where,
            text=_text(raw),
            media=media + fields.file_attachments(files),
            sender_id=name and sender_by_name(platform, chat_id, name),
            sender_name=name,
            sent_at=raw.get("timestamp_ms", raw.get("timestamp")),
        )
        yield from _KINDS.read(where, telling or unknown or str(raw.get("type") or "Generic"), message)


def _listed(value: object) -> list[dict[str, Any]]:
    return fields.dicts_of(value if isinstance(value, list) else [value])


def _text(raw: dict[str, Any]) -> str:
    """Return what was written, with the link that is shared, and what is said there as a quotation."""
    share = fields.dict_of(raw.get("share"))
    quoted = [f"> {line}" for line in fields.text_of(share.get("share_text")).splitlines()]
    written = fields.text_of(raw.get("content")) or fields.text_of(raw.get("text"))
    link = fields.text_of(share.get("link"))
    return "\n".join(filter(None, (written, link if link not in written else "", *quoted)))


def _mended(value: Any) -> Any:
    """Read the texts in a value of JSON again, as UTF-8.

    >>> _mended({"content": "caf\u00c3\u00a9 \u00e2\u0098\u0095", "share": ["\u00e9", "☕"]})
    {'content': 'café ☕', 'share': ['é', '☕']}
    """
    if isinstance(value, dict):
        return {key: _mended(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_mended(inner) for inner in value]
    try:
        return value.encode("latin-1").decode() if isinstance(value, str) else value
    except UnicodeError:
        return value


_FOLDERS = ("messages/*/*/message_*.json",)
_KEYS: tuple[dict[str, str], ...] = (
    {"messages.item": "timestamp_ms"},
    {"": "messages thread_path|threadName"},
    {"messages.item": "senderName timestamp"},
)
FORMATS = (
    ExportFormat(
        name="instagram",
        of_bytes=partial(parse, platform="instagram"),
        several=True,
        looks=(
            *(Shape(keys=keys, head='"your_instagram_activity/') for keys in _KEYS),
            *(Shape(keys=keys, name="(?i)instagram") for keys in _KEYS),
        ),
    ),
    ExportFormat(
        name="messenger",
        of_bytes=parse,
        several=True,
        folders=_FOLDERS,
        looks=tuple(Shape(keys=keys) for keys in _KEYS),
    ),
)
