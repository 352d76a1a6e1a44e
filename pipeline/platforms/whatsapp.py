"""Parse WhatsApp's `Export chat`: the text file of an Android phone or an iPhone.

The file has no zone, no ids and, on Android, no seconds; see `identity` for its ids. System lines and deleted messages
are counted and left out. A picture without a caption stays as `[image]`, since answers refer to it.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from itertools import chain, islice
from typing import get_args
from zoneinfo import ZoneInfo

from pydantic import ValidationError

from pipeline.platforms import fields, whatsapp_text, whatsapp_time
from pipeline.platforms.identity import ImportIds, Positions
from pipeline.platforms.records import (
    Ambiguous,
    Broken,
    DateOrder,
    ImportOptions,
    Notice,
    Parsed,
    Record,
    Skipped,
    Times,
)
from schemas.messages import MAX_CONTENT_BYTES, ChatIn, ChatKind

# The dates are read from the first lines, so that a file of any size needs little memory; from more of them when these
# allow two readings, which they rarely do for longer than twelve days.
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
    """Return the chat's title from the file's name, or the bare name; None for `_chat.txt`.

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
        self.problem = self.problem or fields.unreadable(text)


def parse(lines: Iterable[str], options: ImportOptions) -> Iterator[Parsed]:
    """Parse the chat and its messages from the lines of the export (with or without their line ends).

    `options` names the chat by `chat_id` or `title`. Yields only `Ambiguous` if its dates can be read in two ways;
    else the chat, its messages, and the chat once more if the speakers tell its kind.
    """
    if not (options.chat_id or options.title):
        yield Broken(where="the file", reason="nothing says which chat this is: name it with --chat")
        return
    try:
        chat = fields.chat_of("whatsapp", options.chat_id or str(options.title), options)
    except ValidationError as error:
        yield Broken(where="the chat", reason=fields.sentence(error))
        return
    beginning = _read_beginning(iter(lines), options.date_order)
    if beginning.order is None:
        yield Ambiguous(examples=tuple(whatsapp_time.examples(beginning.starts)))
        return
    zone = chat.time_zone
    yield chat
    if beginning.starts and zone is None:
        yield Notice(
            text="WhatsApp writes times without a zone; they are read as UTC. Say --tz, as in Europe/Lisbon."
        )
    if beginning.starts:
        yield Times(text=_times(beginning.starts, beginning.order, zone))
    reader = _WhatsAppReader(chat=chat, zone=ZoneInfo(zone or "UTC"), order=beginning.order)
    for entry in _entries(beginning.lines, beginning.styles):
        yield reader.read(entry) if isinstance(entry, _Entry) else entry
    if kind := options.kind or _kind(chat.title or "", reader.senders):
        yield chat.model_copy(update={"kind": kind})


@dataclass(frozen=True, kw_only=True)
class _Beginning:
    """What the first lines say of how to read the others."""

    # all of the source's, those that have been read among them
    lines: Iterable[str]
    styles: list[whatsapp_time.Style]
    starts: list[whatsapp_time.Start]
    # None: the dates allow two readings
    order: DateOrder | None


def _read_beginning(lines: Iterator[str], given: DateOrder | None) -> _Beginning:
    head: list[str] = []
    chars = 0
    for line in islice(lines, HEAD_LINES):
        head.append(line)
        chars += len(line)
        if chars >= _HEAD_CHARS:
            break
    while True:
        read = [start for start in map(whatsapp_time.read_start, head) if start is not None]
        styles = [style for style, _ in Counter(start.style for start in read).most_common(1)]
        starts = [start for start in read if start.style in styles]
        order = given or (whatsapp_time.guess_order(starts) if starts else "dmy")
        more = [] if order else list(islice(lines, len(head)))
        if not more:
            return _Beginning(
                lines=chain(head, lines),
                styles=styles or list(get_args(whatsapp_time.Style)),
                starts=starts,
                order=order,
            )
        head += more


def _times(starts: list[whatsapp_time.Start], order: DateOrder, zone: str | None) -> str:
    first = {"dmy": "day first", "mdy": "month first", "ymd": "year first"}[order]
    for start in starts:
        try:
            day = whatsapp_time.local_time(start, order)
        except ValueError:
            continue
        return f"read by the clock of {zone or 'UTC'}, dates {first} ({start.written} is {day:%-d %B %Y, %A})"
    return f"read by the clock of {zone or 'UTC'}, dates {first}"


def _kind(title: str, senders: Mapping[str, str]) -> ChatKind | None:
    """Return the chat's kind: more than two people are a group; a chat named like one of two is direct."""
    if len(senders) > 2:
        return "group"
    return "direct" if title.casefold() in {name.casefold() for name in senders.values()} else None


def _entries(lines: Iterable[str], styles: list[whatsapp_time.Style]) -> Iterator[_Entry | Broken]:
    """Join lines into entries: one that does not begin with a date continues the message before it."""
    entry: _Entry | None = None
    for number, raw in enumerate(lines, start=1):
        line = raw.rstrip("\r\n")
        if start := whatsapp_time.read_start(line, styles):
            if entry is not None:
                yield entry
            entry = _Entry(line=number, start=start)
            if start.unknown is not None:
                entry.problem = f"no known part of the day is called {start.unknown!r}"
            entry.add(start.rest)
        elif entry is not None:
            entry.add(line)
        elif whatsapp_text.trim(line):
            yield Broken(where=f"line {number}", reason="does not begin with a date as WhatsApp writes it")
    if entry is not None:
        yield entry


class _WhatsAppReader:
    """Entries to messages; keeps what came before, for ids, order and the clock."""

    def __init__(self, *, chat: ChatIn, zone: ZoneInfo, order: DateOrder) -> None:
        # names by id
        self.senders: dict[str, str] = {}
        self._chat = chat
        self._order: DateOrder = order
        self._zone = zone
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
            date = entry.start.written
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
        if said.withheld:
            return Skipped(where=where, reason="kind that WhatsApp does not export")
        if not said.text and not said.media:
            return Skipped(where=where, reason="message without text")
        return self._message(where, sender, local, self._other_times(entry.start), said)

    def _other_times(self, start: whatsapp_time.Start) -> list[str]:
        """Yield the local times by the other orders of a date."""
        others = []
        for order in get_args(DateOrder):
            if order != self._order:
                with suppress(ValueError):
                    others.append(whatsapp_time.local_time(start, order).isoformat())
        return others

    def _message(
        self, where: str, sender: str, local: datetime, others: list[str], said: whatsapp_text.Said
    ) -> Parsed:
        sent_at = whatsapp_time.instant(local, self._zone, self._latest)
        sender_id = whatsapp_text.sender_id(sender)
        # With and without media the same picture has two placeholders; only that there was one is hashed.
        identity = f"[media] {said.text}" if said.media else said.text
        external_id, *aliases = self._ids.names(sender_id, local.isoformat(), identity, others)
        found = fields.read_message(
            where,
            self._chat.chat_id,
            text=said.text,
            media=said.media,
            metadata={"edited": True} if said.edited else {},
            by_clock=True,
            # a day whose number is that of its month is one day in either order
            aliases=tuple(alias for alias in aliases if alias != external_id),
            external_id=external_id,
            sender_id=sender_id,
            sender_name=sender,
            sent_at=sent_at,
            position=self._positions.next(sent_at),
        )
        if isinstance(found, Record):
            self._latest = sent_at
            self.senders[sender_id] = sender
        return found
