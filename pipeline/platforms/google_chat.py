"""Parse the chats of Google Chat as Takeout exports them: a folder for each, with `messages.json`.

Times stand in words in the account's language, and in UTC.
"""

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import IO, Any

from pipeline.platforms import contents, dates, fields, json_stream, jsonlines
from pipeline.platforms.fields import dict_of, dicts_of, text_of
from pipeline.platforms.platform import ExportFormat, FilePlace, Shape
from pipeline.platforms.records import Broken, ImportOptions, Parsed, Skipped


def parse(stream: IO[bytes], options: ImportOptions) -> Iterator[Parsed]:
    """Parse a chat and its messages; `command.chat_id` replaces the chat's own id."""
    reader = jsonlines.Reader(replace(options, chat_id=None))
    chat_id = ""
    for item in json_stream.walk(stream, {"messages.item": ""}):
        if isinstance(item, Broken):
            yield item
            continue
        raw, where = dict_of(item.value), f"messages[{item.index}]"
        # the ids of the chat, the topic, and the message in it
        own_id = text_of(raw.get("message_id"))
        place, _, rest = own_id.partition("/")
        topic = text_of(raw.get("topic_id")) or rest.partition("/")[0]
        if not (own_id and (place or options.chat_id)):
            yield Broken(where=where, reason="message_id is missing")
            continue
        if not chat_id:
            chat_id = fields.with_platform("googlechat", options.chat_id or place)
            yield from reader.read_chat(where, chat_id, "googlechat", options.title or "")
        if raw.get("message_state") == "DELETED" or (raw.get("deletion_metadata") and not raw.get("text")):
            yield Skipped(where=where, reason="deleted message")
            continue
        yield from _message(raw, where, own_id, f"{place}/{topic}/{topic}", reader)


def _message(
    raw: dict[str, Any], where: str, own_id: str, first: str, reader: jsonlines.Reader
) -> Iterator[Parsed]:
    creator, written = dict_of(raw.get("creator")), text_of(raw.get("created_date"))
    sent_at = dates.moment_of(written)
    if sent_at is None:
        reason = (
            f"created_date {written[:80]!r} cannot be read: set Google's language to English and export again"
        )
        yield Broken(where=where, reason=reason)
        return
    quoted = dict_of(raw.get("quoted_message_metadata"))
    quote = [f"> {line}" for line in text_of(quoted.get("text")).splitlines()]
    files = [
        file.get("original_name") or file.get("export_name") for file in dicts_of(raw.get("attached_files"))
    ]
    cards = (
        []
        if text_of(raw.get("text"))
        else [contents.words(raw.get("cards") or raw.get("attachments"), "text")]
    )
    metadata = {"edited_at": str(raw["updated_date"])} if raw.get("updated_date") else {}
    yield from reader.read_message(
        where,
        text="\n".join(filter(None, [*quote, text_of(raw.get("text")), *cards])),
        media=fields.file_attachments(files),
        metadata=metadata,
        external_id=own_id,
        sender_id=f"googlechat:{fields.name_of(creator.get('email'), creator.get('name')) or 'unknown'}",
        sender_name=fields.name_of(creator.get("name"), creator.get("email")),
        role="assistant" if str(creator.get("user_type")).lower() == "bot" else "user",
        sent_at=f"{sent_at.isoformat()}Z",
        reply_to=first if own_id != first else None,
    )


def _placed(options: ImportOptions, place: FilePlace) -> ImportOptions:
    """Name the chat, and tell its kind, by the `group_info.json` beside it."""
    folder = place.member.rpartition("/")[0]
    raw = place.read(f"{folder}/group_info.json".lstrip("/"))
    try:
        about = dict_of(json.loads(raw)) if raw else {}
    except (ValueError, RecursionError):
        # the messages are whole without a title
        about = {}
    people = dicts_of(about.get("members"))
    names = filter(None, (fields.name_of(person.get("name"), person.get("email")) for person in people))
    direct = folder.rpartition("/")[2].startswith("DM ") and len(people) <= 2
    return replace(
        options,
        title=options.title or fields.name_of(about.get("name")) or ", ".join(names) or None,
        kind=options.kind or ("direct" if direct else "group" if people else None),
    )


FORMAT = ExportFormat(
    name="googlechat",
    of_bytes=parse,
    several=True,
    folders=("Groups/*/*.json",),
    placed=_placed,
    looks=(Shape(keys={"": "messages", "messages.item": "creator created_date message_id|topic_id"}),),
)
