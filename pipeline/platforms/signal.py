"""Parse Signal's own export of chats (`main.jsonl`), or a chat of signal-export (`data.json`, or `chat.md` as text).

The first names people by number or account, and messages by the time they were sent, as bots know them. The others
have only names, and times by the clock of whoever exported.
"""

import re
from base64 import b64decode
from collections.abc import Iterable, Iterator
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path
from typing import Any
from uuid import UUID

from pipeline.platforms import fields, jsonlines, kinds
from pipeline.platforms.identity import sender_by_name
from pipeline.platforms.platform import ExportFormat, FilePlace, Shape
from pipeline.platforms.records import Broken, ImportOptions, Notice, Parsed, Skipped

START = re.compile(
    r"\[(?P<day>\d{4}-\d\d-\d\d),? (?P<clock>\d\d:\d\d(?::\d\d)?)\] (?P<sender>.+?):(?: |$)(?P<body>.*)"
)
_REACTIONS = re.compile(r"^\(- .* -\)$", re.MULTILINE)
_DELETED = "(This message was deleted)"
_KINDS = kinds.load("signal")
# the texts of an item, and what in it is others'
_WRITTEN = frozenset(("body", "question", "option", "note", "givenName", "familyName", "emoji"))
_NOT_OWN = frozenset(("quote", "reactions", "linkPreview", "votes", "bodyRanges"))


def parse(lines: Iterable[str], options: ImportOptions) -> Iterator[Parsed]:
    """Parse chats and messages; `command.chat_id` or `title` name the chat of signal-export."""
    reader = _SignalReader(options)
    for where, entry in _entries(lines):
        try:
            yield from reader.read(_object_of(entry), where)
        except (ValueError, TypeError, RecursionError) as error:
            yield Broken(where=where, reason=str(error))


def _entries(lines: Iterable[str]) -> Iterator[tuple[str, list[str]]]:
    """Yield the lines of JSON, and the messages of Markdown with the lines that they go on in."""

    def begins(line: str) -> object:
        return START.match(line.removeprefix("\ufeff"))

    for number, line, more in fields.joined(lines, begins, leading=True):
        if first := line.removeprefix("\ufeff").strip():
            yield f"line {number}", [first, *more]


def _object_of(entry: list[str]) -> dict[str, Any]:
    """Return the object on a line of JSON, and a message of Markdown as signal-export writes it in JSON."""
    if not (start := START.match(entry[0])):
        return jsonlines.object_of(entry[0])
    if problem := next(filter(None, map(fields.unreadable, entry)), None):
        raise ValueError(problem)
    body = _REACTIONS.sub("", "\n".join([start["body"], *entry[1:]])).strip()
    message = {"date": f"{start['day']}T{start['clock']}", "sender": start["sender"], "body": body}
    return {**message, "deleted": body == _DELETED}


class _SignalReader:
    def __init__(self, options: ImportOptions) -> None:
        self._chat_option, self._named = options.chat_id, options.chat_id or options.title
        self._reader = jsonlines.Reader(replace(options, chat_id=None))
        # by the numbers that the file gives them: ids and names of people and groups, and ids of chats
        self._people: dict[str, tuple[str, str]] = {}
        self._chats: dict[str, str] = {}
        self._me = ("", "Me")

    def read(self, raw: dict[str, Any], where: str) -> Iterator[Parsed]:
        """Read an object. Raises `ValueError` or `TypeError` if it is not as it should be."""
        kind = next(iter(raw), "empty line")
        frame = fields.dict_of(raw.get(kind))
        key = str(frame.get("id"))
        if {"sender", "date"} <= raw.keys():
            yield from self._exported(raw, where)
        elif kind == "account":
            if self._chat_option:
                yield Notice(text="The export names its chats itself; --chat is not used.")
            self._me = fields.name_of(frame.get("username")), _name(frame) or "Me"
        elif kind == "recipient":
            account = str(fields.dict_of(frame.get("contact")).get("aci"))
            self._people |= dict.fromkeys((key, account), self._me if "self" in frame else _person(frame))
        elif kind == "chat":
            person_id, title = self._people.get(str(frame.get("recipientId")), ("", ""))
            self._chats[key] = fields.with_platform("signal", person_id or title)
            group = person_id.startswith("group-")
            yield from self._reader.read_chat(where, self._chats[key], "signal", title, grouped=group)
        elif kind == "chatItem":
            what = next((field for field in frame if _KINDS.fates.get(field) != "about"), "updateMessage")
            yield from _KINDS.read(where, what, self._item(frame, what, where))
            if fields.dict_of(frame.get(what)).get("longText"):
                yield from filter(None, [_KINDS.report(where, "longText")])
        else:
            yield from filter(None, [_KINDS.report(where, kind)])

    def _exported(self, raw: dict[str, Any], where: str) -> Iterator[Parsed]:
        if not self._named:
            raise ValueError("nothing says which chat this is: name it with --chat")
        chat_id, name = fields.with_platform("signal", self._named), fields.name_of(raw["sender"])
        if not self._chats:
            self._chats[""] = chat_id
            yield from self._reader.read_chat(where, chat_id, "signal", self._named, by_clock=True)
        if raw.get("deleted") or raw.get("call"):
            yield Skipped(where=where, reason="deleted message" if raw.get("deleted") else "service message")
            return
        media = fields.file_attachments(
            [item.get("name") for item in fields.dicts_of(raw.get("attachments"))]
        )
        yield from self._reader.read_message(
            where,
            text=f"{fields.text_of(raw.get('quote'))}\n{fields.text_of(raw.get('body'))}".strip(),
            media=[*media, *([{"kind": "sticker"}] if raw.get("sticker") else [])],
            sender_id=sender_by_name("signal", chat_id, name),
            sender_name=name,
            sent_at=raw["date"],
        )

    def _item(self, item: dict[str, Any], what: str, where: str) -> Iterator[Parsed]:
        if (chat_id := self._chats.get(str(item.get("chatId")))) is None:
            raise ValueError(f"chatId {item.get('chatId')!r} is no chat of this file")
        held = fields.dict_of(item.get(what))
        person_id, name = self._people.get(str(item.get("authorId")), ("", "Unknown"))
        # an edited message keeps the time at which it was first sent
        sent_at = (fields.dicts_of(item.get("revisions")) or [item])[0].get("dateSent")
        answered = fields.dict_of(held.get("quote")).get("targetSentTimestamp")
        pointers = [fields.dict_of(file.get("pointer")) for file in fields.dicts_of(held.get("attachments"))]
        word = _KINDS.words.get(what)
        yield from self._reader.read_message(
            where,
            text=" ".join(filter(None, (f"[{word}]" if word else "", "\n".join(self._texts(held))))),
            media=fields.file_attachments(
                [file.get("fileName") or file.get("contentType") for file in pointers]
            ),
            chat_id=chat_id,
            external_id=str(sent_at),
            sender_id=f"signal:{person_id}" if person_id else sender_by_name("signal", chat_id, name),
            sender_name=name,
            sent_at=sent_at,
            reply_to=str(answered) if answered else None,
        )

    def _texts(self, value: Any, key: str = "") -> Iterator[str]:
        """Yield the texts that the item's author wrote, with people mentioned by name."""
        if isinstance(value, dict):
            ranges = fields.dicts_of(value.get("bodyRanges"))
            mentioned = [account for span in ranges if (account := span.get("mentionAci"))]
            for field, inner in value.items():
                for text in self._texts(inner, field) if field not in _NOT_OWN else ():
                    for account in mentioned:
                        text = text.replace("\ufffc", f"@{self._people.get(account, ('', 'Unknown'))[1]}", 1)
                    yield text
        elif isinstance(value, list):
            for inner in value:
                yield from self._texts(inner, key)
        elif key in _WRITTEN and fields.text_of(value):
            yield value


def _person(recipient: dict[str, Any]) -> tuple[str, str]:
    group, contact = fields.dict_of(recipient.get("group")), fields.dict_of(recipient.get("contact"))
    if key := fields.text_of(group.get("masterKey")):
        title = fields.dict_of(fields.dict_of(group.get("snapshot")).get("title")).get("title")
        # the key itself would give access to the profile
        return f"group-{blake2b(key.encode(), digest_size=12).hexdigest()}", fields.name_of(title)
    number, account = contact.get("e164"), fields.text_of(contact.get("aci"))
    person_id = f"+{number}" if number else str(UUID(bytes=b64decode(account))) if account else ""
    nickname = _name(fields.dict_of(contact.get("nickname")), "given", "family")
    system = _name(contact, "systemGivenName", "systemFamilyName")
    return person_id, nickname or system or _name(
        contact, "profileGivenName", "profileFamilyName"
    ) or person_id or "Signal"


def _name(person: dict[str, Any], first: str = "givenName", last: str = "familyName") -> str:
    return fields.name_of(
        " ".join(filter(None, (fields.text_of(person.get(first)), fields.text_of(person.get(last)))))
    )


def _placed(options: ImportOptions, place: FilePlace) -> ImportOptions:
    """Name the chat by its file, or by the folder in which signal-export has put it."""
    folder, file = place.source.absolute().parent.name, Path(place.member)
    named = file.stem if file.stem not in {"chat", "data", "index"} else file.parent.name or folder
    return options if options.title is not None else replace(options, title=named)


FORMAT = ExportFormat(
    name="signal",
    of_lines=parse,
    several=True,
    folders=("*/chat.md",),
    placed=_placed,
    looks=(
        Shape(keys={"": "version backupTimeMs"}),
        Shape(keys={"": "date sender"}, head=r"\A\{"),
        # WhatsApp's brackets have seconds, and signal-export's lines with them end in two spaces
        Shape(lines=r"\[\d{4}-\d\d-\d\d(?:, \d\d:\d\d\]| \d\d:\d\d:\d\d\].*  $)", share=0),
        Shape(head=r"\A\[\d{4}-\d\d-\d\d,? \d\d:\d\d", name=r"(?i)\.md$"),
    ),
)
