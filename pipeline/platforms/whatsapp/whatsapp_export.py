"""Parse WhatsApp's `Export chat`: the text file of an Android phone or an iPhone.

The file has no zone, no ids and, on Android, no seconds; see `identity` for its ids. System lines and deleted messages
are counted and left out. A picture without a caption stays as `[image]`, since answers refer to it.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import chain, islice
from typing import get_args
from zoneinfo import ZoneInfo

from pydantic import ValidationError

from pipeline.platforms import dates, fields
from pipeline.platforms.identity import ImportIds, Positions
from pipeline.platforms.platform import ExportFormat, Shape
from pipeline.platforms.records import (
    NO_TEXT,
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
from pipeline.platforms.whatsapp import whatsapp_text
from pipeline.platforms.whatsapp.whatsapp_text import number_id, sender_id
from schemas.messages import MAX_CONTENT_BYTES, ChatIn, ChatKind

# The dates are read from the first lines, so that a file of any size needs little memory; from more of them when these
# allow two readings, which they rarely do for longer than twelve days.
HEAD_LINES = 10_000
_HEAD_CHARS = 4_000_000

# browsers number what is downloaded twice
_SUFFIX = re.compile(r"\.(?:txt|zip)$", re.IGNORECASE)
_COPY = re.compile(r"\s?\(\d{1,2}\)$")


def title_from_name(file_name: str, speakers: Collection[str] = ()) -> str | None:
    """Return the chat's title from the file's name, or the bare name; None for `_chat.txt`.

    >>> title_from_name("WhatsApp Chat with Harbour House (1).txt"), title_from_name("_chat.txt")
    ('Harbour House', None)
    >>> title_from_name("Jörg ile WhatsApp Sohbeti.txt"), title_from_name("WhatsApp Chat - Ana.zip")
    ('Jörg', 'Ana')
    """
    stem = _stem(file_name)
    if stem.strip("_").lower() in {"chat", ""}:
        return None
    # an unknown form of the name may name one of two speakers
    named = [name for name in speakers if f" {name} ".casefold() in f" {stem} ".casefold()]
    unknown = named[0] if "whatsapp" in stem.lower() and len(speakers) <= 2 and len(named) == 1 else stem
    return whatsapp_text.title_in(stem) or unknown


def _stem(file_name: str) -> str:
    # a Mac takes letters and their accents apart
    stem = unicodedata.normalize("NFC", _COPY.sub("", _SUFFIX.sub("", file_name)))
    spaced = stem.replace("_", " ") if "whatsapp_" in stem.lower() and " " not in stem else stem
    return whatsapp_text.trim(spaced)


def parse(lines: Iterable[str], options: ImportOptions) -> Iterator[Parsed]:
    """Parse the chat and its messages from the lines of the export (with or without their line ends).

    `options` names the chat by `chat_id`, `title` or `file_name`. Yields only `Ambiguous` if its dates can be read in
    two ways; else the chat, its messages, and the chat once more if the speakers tell its kind.
    """
    beginning = _read_beginning(iter(lines), options.date_order)
    spoken = [pair for pair in (whatsapp_text.split_sender(s.rest) for s in beginning.starts) if pair]
    speakers = Counter(name for name, _ in spoken)
    title = options.title or title_from_name(options.file_name or "", speakers)
    if not (options.chat_id or title):
        yield Broken(where="the file", reason="nothing says which chat this is: name it with --chat")
        return
    try:
        chat = fields.chat_of("whatsapp", options.chat_id or str(title), replace(options, title=title))
    except ValidationError as error:
        yield Broken(where="the chat", reason=fields.sentence(error))
        return
    if beginning.order is None:
        yield Ambiguous(examples=tuple(dates.examples(beginning.starts)))
        return
    zone = chat.time_zone
    yield chat
    if beginning.starts and zone is None:
        yield Notice(
            text="WhatsApp writes times without a zone; they are read as UTC. Say --tz, as in Europe/Lisbon."
        )
    if beginning.starts:
        yield Times(text=_times(beginning.starts, beginning.order, zone))
    reader = _WhatsAppReader(chat, ZoneInfo(zone or "UTC"), beginning.order, speakers)
    if len(speakers) > 2 and beginning.starts[0].style != "dash":
        name, text = spoken[0]
        by_group = whatsapp_text.same_name(name, title or "") or whatsapp_text.ENCRYPTION.match(
            whatsapp_text.trim(text)
        )
        # a group itself says little: a speaker of a fifth of all lines is a person with the chat's name
        reader.group = name if by_group and speakers[name] < len(spoken) / 5 + 3 else None
    yield from _read(beginning, reader)
    if kind := options.kind or _kind(chat.title or "", reader.senders):
        yield chat.model_copy(update={"kind": kind})
    stem = "" if options.title else _stem(options.file_name or "")
    if stem and not whatsapp_text.title_in(stem) and ("whatsapp" in stem.lower() or not kind):
        yield Notice(
            text=f"The file's name, {stem!r}, has no form known of WhatsApp: its chat is taken for {title!r}, "
            f"{kind or 'group'}. If that is wrong, import it with --title and --kind."
        )


@dataclass(frozen=True, kw_only=True)
class _Beginning:
    """How to read the file, as found from its first lines."""

    # all of the source's, those that have been read among them
    lines: Iterable[str]
    styles: list[dates.Style]
    starts: list[dates.Start]
    # None: the dates allow two readings
    order: DateOrder | None


def _read_beginning(lines: Iterator[str], chosen: DateOrder | None) -> _Beginning:
    head: list[str] = []
    chars = 0
    for line in islice(lines, HEAD_LINES):
        head.append(line)
        chars += len(line)
        if chars >= _HEAD_CHARS:
            break
    while True:
        read = [start for start in map(dates.read_start, head) if start is not None]
        styles = [style for style, _ in Counter(start.style for start in read).most_common(1)]
        starts = [start for start in read if start.style in styles]
        order = chosen or (dates.guess_order(starts) if starts else "dmy")
        more = [] if order else list(islice(lines, len(head)))
        if not more:
            return _Beginning(
                lines=chain(head, lines),
                styles=styles or list(get_args(dates.Style)),
                starts=starts,
                order=order,
            )
        head += more


def _times(starts: list[dates.Start], order: DateOrder, zone: str | None) -> str:
    first = {"dmy": "day first", "mdy": "month first", "ymd": "year first"}[order]
    for start in starts:
        try:
            day = dates.local_time(start, order)
        except ValueError:
            continue
        return f"read by the clock of {zone or 'UTC'}, dates {first} ({start.written} is {day:%-d %B %Y, %A})"
    return f"read by the clock of {zone or 'UTC'}, dates {first}"


def _kind(title: str, senders: Mapping[str, str]) -> ChatKind | None:
    """Return the chat's kind: more than two people are a group; a chat named like one of two is direct."""
    if len(senders) > 2:
        return "group"
    return "direct" if any(whatsapp_text.same_name(title, name) for name in senders.values()) else None


def _read(beginning: _Beginning, reader: "_WhatsAppReader") -> Iterator[Parsed]:
    """Yield what is read of each message: a line that does not begin with a date goes on with the one before it."""

    def start_of(line: str) -> dates.Start | None:
        return dates.read_start(line, beginning.styles)

    lines = (line.rstrip("\r\n") for line in beginning.lines)
    for number, line, more in fields.joined(lines, start_of, leading=True):
        where, start = f"line {number}", start_of(line)
        if start is None:
            if whatsapp_text.trim(line):
                yield Broken(where=where, reason="does not begin with a date as WhatsApp writes it")
            continue
        problem = next(filter(None, map(fields.unreadable, (start.rest, *more))), None)
        if start.unknown is not None:
            problem = f"no known part of the day is called {start.unknown!r}"
        elif len(start.rest) + sum(map(len, more)) + len(more) > MAX_CONTENT_BYTES:
            problem = f"content is longer than {MAX_CONTENT_BYTES} bytes"
        yield Broken(where=where, reason=problem) if problem else reader.read(where, start, more)


class _WhatsAppReader:
    """Converts entries to messages; keeps earlier ones for ids, order and the clock."""

    def __init__(self, chat: ChatIn, zone: ZoneInfo, order: DateOrder, speakers: Mapping[str, int]) -> None:
        # names by id
        self.senders: dict[str, str] = {}
        # the name in which a group itself speaks
        self.group: str | None = None
        self._speakers = speakers
        self._chat = chat
        self._order: DateOrder = order
        self._zone = zone
        self._ids = ImportIds()
        self._positions = Positions()
        self._latest: datetime | None = None

    def read(self, where: str, start: dates.Start, more: list[str]) -> Parsed:
        try:
            local = dates.local_time(start, self._order)
        except ValueError as error:
            return Broken(
                where=where,
                reason=f"{start.written} is no date in the order {self._order}: {error}; see --date-order",
            )
        spoken = whatsapp_text.split_sender(start.rest, self._speakers)
        if spoken is None or spoken[0] == self.group:
            text = spoken[1] if spoken else start.rest
            return Skipped(where=where, reason=whatsapp_text.counted_as(text) or "system line")
        sender, iphone = spoken[0], start.style != "dash"
        body = whatsapp_text.read_text("\n".join([spoken[1], *more]), iphone=iphone, sender=sender)
        if body.counted or not (body.text or body.media):
            return Skipped(where=where, reason=body.counted or NO_TEXT)
        return self._message(where, sender, local, self._other_times(start), body)

    def _other_times(self, start: dates.Start) -> list[str]:
        """Return the local times by the other orders of a date."""
        times = []
        for order in get_args(DateOrder):
            if order != self._order:
                with suppress(ValueError):
                    times.append(dates.local_time(start, order).isoformat())
        return times

    def _message(
        self, where: str, sender: str, local: datetime, other_times: list[str], body: whatsapp_text.Content
    ) -> Parsed:
        sent_at = dates.instant(local, self._zone, self._latest)
        identity = sender_id(self._chat.chat_id, sender)
        # With and without media the same picture has two placeholders; only that there was one is hashed.
        text = f"[media] {body.text}" if body.media else body.text
        external_id, *aliases = self._ids.names(
            number_id(sender) or f"whatsapp:{sender}", local.isoformat(), text, other_times
        )
        message = fields.read_message(
            where,
            self._chat.chat_id,
            text=body.text,
            media=body.media,
            metadata={"edited": True} if body.edited else {},
            by_clock=True,
            # a day whose number is that of its month is one day in either order
            aliases=tuple(alias for alias in aliases if alias != external_id),
            external_id=external_id,
            sender_id=identity,
            sender_name=sender,
            sent_at=sent_at,
            position=self._positions.next(sent_at),
        )
        if isinstance(message, Record):
            self._latest = sent_at
            self.senders[identity] = sender
        return message


_BRACKET_WITHOUT_SECONDS = re.compile(r"\W*\[(?!.{0,40}\d[:.]\d\d[:.]\d\d)")


def _begins(line: str) -> bool:
    # in brackets WhatsApp writes seconds, others do not
    return dates.read_start(line) is not None and not _BRACKET_WITHOUT_SECONDS.match(line[:80])


FORMAT = ExportFormat(name="whatsapp", of_lines=parse, loose=True, looks=(Shape(lines=_begins, share=0),))
