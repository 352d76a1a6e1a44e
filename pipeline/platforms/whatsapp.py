"""WhatsApp's `Export chat`: the text file of an Android phone or an iPhone, as messages.

The file names no zone, no ids and, on Android, no seconds; see `identity` for what stands in for the ids.
System lines ("Ana added Ben", the notice on encryption) are counted and left out: nobody said them, and
their wording would be what keyword search finds first. A picture without a caption stays as `[image]`, since
the answers that follow make no sense without it; what was deleted is left out.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from itertools import chain

from pydantic import ValidationError

from pipeline.platforms import whatsapp_text, whatsapp_time
from pipeline.platforms.identity import ImportIds, Positions
from pipeline.platforms.records import (
    Broken,
    DateOrder,
    ImportOptions,
    Notice,
    Parsed,
    Record,
    Skipped,
    chat_of,
    sentence,
    unreadable,
    with_media,
)
from schemas.messages import MAX_CONTENT_BYTES, ChatIn, MessageIn

# The dates are read from the first lines, so that a file of any size needs little memory.
HEAD_LINES = 10_000
_HEAD_CHARS = 4_000_000

_TITLE = re.compile(
    r"(?>.*?whats\s?app).*?(?:\s(?:with|mit|con|avec|com|met|с контактом|с|ile)\s|\s-\s)(?P<title>.+)",
    re.IGNORECASE,
)
# browsers number what is downloaded twice
_SUFFIX = re.compile(r"\.(?:txt|zip)$", re.IGNORECASE)
_COPY = re.compile(r"\s?\(\d{1,2}\)$")


def title_from_name(file_name: str) -> str | None:
    """The chat's title in the name that WhatsApp gives the file, or the bare name; nothing for `_chat.txt`.

    >>> title_from_name("WhatsApp Chat with Harbour House (1).txt"), title_from_name("_chat.txt")
    ('Harbour House', None)
    >>> title_from_name("WhatsApp-Chat mit Jörg.txt"), title_from_name("WhatsApp Chat - Ana.zip")
    ('Jörg', 'Ana')
    """
    stem = _COPY.sub("", _SUFFIX.sub("", file_name)).strip()
    if stem.strip("_").lower() in {"chat", ""}:
        return None
    return found["title"].strip() if (found := _TITLE.match(stem)) else stem


@dataclass(kw_only=True)
class _Entry:
    """One message's lines, as they are collected."""

    line: int
    start: whatsapp_time.Start
    lines: list[str] = field(default_factory=list)
    size: int = 0
    problem: str | None = None

    def add(self, text: str) -> None:
        # a character is at least a byte: beyond this the message is refused, so no more of it is kept
        if self.size <= MAX_CONTENT_BYTES:
            self.lines.append(text)
        else:
            self.problem = self.problem or f"content is longer than {MAX_CONTENT_BYTES} bytes"
        self.size += len(text) + 1
        self.problem = self.problem or unreadable(text)


def parse(lines: Iterable[str], options: ImportOptions) -> Iterator[Parsed]:
    """The chat and its messages from the lines of the export (with or without their line ends).

    `options` names the chat by `chat_id` or `title`. Yields the chat first, and once more at the end when
    more than two people spoke, which makes it a group.
    """
    if not (options.chat_id or options.title):
        yield Broken(where="the file", reason="nothing says which chat this is: name it with --chat")
        return
    try:
        chat = chat_of("whatsapp", options.chat_id or str(options.title), options)
    except ValidationError as error:
        yield Broken(where="the chat", reason=sentence(error))
        return
    head, rest = _split_head(iter(lines))
    starts = [start for start in map(whatsapp_time.read_start, head) if start is not None]
    styles = [style for style, _ in Counter(start.style for start in starts).most_common(1)]
    order = options.date_order or whatsapp_time.guess_order([s for s in starts if s.style in styles])
    yield chat
    if starts and options.time_zone is None:
        yield Notice(
            text="WhatsApp writes times without a zone; they are read as UTC. Say --tz, as in Europe/Lisbon."
        )
    if starts and order is None:
        yield Notice(
            text=f"{'/'.join(starts[0].date)} can be read in two ways; it is taken as day, month, year. "
            "If that is wrong, say --date-order mdy."
        )
    reader = _Reader(chat=chat, options=options, order=order or "dmy")
    for entry in _entries(chain(head, rest), styles or ["dash", "bracket", "colon"]):
        yield reader.read(entry) if isinstance(entry, _Entry) else entry
    if len(reader.senders) > 2:
        yield chat.model_copy(update={"kind": "group"})


def _split_head(lines: Iterator[str]) -> tuple[list[str], Iterator[str]]:
    head: list[str] = []
    chars = 0
    for line in lines:
        head.append(line)
        chars += len(line)
        if len(head) >= HEAD_LINES or chars >= _HEAD_CHARS:
            break
    return head, lines


def _entries(lines: Iterable[str], styles: list[whatsapp_time.Style]) -> Iterator[_Entry | Broken]:
    """Lines put together: one that does not begin with a date goes on with the message before it."""
    entry: _Entry | None = None
    for number, raw in enumerate(lines, start=1):
        line = raw.rstrip("\r\n")
        if start := whatsapp_time.read_start(line, styles):
            if entry is not None:
                yield entry
            entry = _Entry(line=number, start=start)
            entry.add(start.rest)
        elif entry is not None:
            entry.add(line)
        elif whatsapp_text.trim(line):
            yield Broken(where=f"line {number}", reason="does not begin with a date as WhatsApp writes it")
    if entry is not None:
        yield entry


class _Reader:
    """Turns entries into messages; knows what came before, for ids, order and the clock."""

    def __init__(self, *, chat: ChatIn, options: ImportOptions, order: DateOrder) -> None:
        self.senders: set[str] = set()
        self._chat = chat
        self._order: DateOrder = order
        self._zone = options.zone()
        self._ids = ImportIds()
        self._positions = Positions()
        self._latest: datetime | None = None

    def read(self, entry: _Entry) -> Parsed:
        where = f"line {entry.line}"
        if entry.problem is not None:
            return Broken(where=where, reason=entry.problem)
        try:
            local = whatsapp_time.local_time(entry.start, self._order)
        except ValueError as error:
            date = "/".join(entry.start.date)
            return Broken(
                where=where, reason=f"{date} is no date in the order {self._order}: {error}; see --date-order"
            )
        name, colon, first = entry.lines[0].partition(": ")
        if not colon and whatsapp_text.trim(name).endswith(":"):
            name, colon = whatsapp_text.trim(name)[:-1], ":"
        sender = whatsapp_text.sender_name(name)
        if not colon or not sender or whatsapp_text.quotes_a_colon(name):
            return Skipped(where=where, reason="system line")
        iphone = entry.start.style != "dash"
        said = whatsapp_text.read_text("\n".join([first, *entry.lines[1:]]), iphone=iphone)
        if said.system or said.deleted:
            return Skipped(where=where, reason="deleted message" if said.deleted else "system line")
        if not said.text and not said.media:
            return Skipped(where=where, reason="message without text")
        return self._message(where, sender, local, said)

    def _message(self, where: str, sender: str, local: datetime, said: whatsapp_text.Said) -> Record | Broken:
        sent_at = whatsapp_time.instant(local, self._zone, self._latest)
        sender_id = whatsapp_text.sender_id(sender)
        # With and without media the same picture has two placeholders; only that there was one is hashed.
        identity = f"[media] {said.text}" if said.media else said.text
        external_id = self._ids.name(sender_id, local.isoformat(), identity)
        metadata: dict[str, object] = {}
        if said.media:
            metadata["media"] = list(said.media)
        if said.edited:
            metadata["edited"] = True
        try:
            message = MessageIn(
                external_id=external_id,
                sender_id=sender_id,
                sender_name=sender,
                content=with_media(said.text, said.media),
                sent_at=sent_at,
                position=self._positions.next(sent_at),
                metadata=metadata,
            )
        except ValidationError as error:
            return Broken(where=where, reason=sentence(error))
        self._latest = sent_at
        self.senders.add(sender_id)
        return Record(chat_id=self._chat.chat_id, message=message, where=where)
