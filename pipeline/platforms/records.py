"""Values that parsers of exports take and yield."""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any, Literal
from zoneinfo import ZoneInfo

from pydantic import ValidationError

from schemas.base import did_you_mean
from schemas.errors import InvalidInput
from schemas.messages import LANGUAGES, MAX_NAME_CHARS, MAX_TITLE_CHARS, ChatIn, ChatKind, MessageIn

DateOrder = Literal["dmy", "mdy", "ymd"]
MAX_LINE_CHARS = 1024 * 1024
"""Lines of text files come cut to one character more than this: a parser sees that they were longer."""

_NOT_UTF8 = re.compile("[\udc80-\udcff]")

_PREFIXED = re.compile(r"[a-z][a-z0-9_-]*:\S")

MediaKind = Literal["image", "video", "audio", "sticker", "document", "contact", "media"]


@dataclass(frozen=True, kw_only=True)
class ImportOptions:
    """What the user says where the file does not.

    Raises `InvalidInput` for a time zone or a language that does not exist.
    """

    # names the chat of a source that holds one; the platform is put in front when there is no colon
    chat_id: str | None = None
    # what the chat is called, where the file does not say (a WhatsApp export says it in its name)
    title: str | None = None
    # the clock of times without an offset, an IANA name; when it is needed and missing, that of the stored chat, else
    # UTC with a notice
    time_zone: str | None = None
    # the zone of a chat that is stored already, by its id; `UTC` tells nothing, as it is what a chat begins with
    stored_zone: Callable[[str], str | None] = lambda _: None
    # what every chat of the source is, where the file does not tell or is wrong
    kind: ChatKind | None = None
    # the text search configuration of every chat of the source
    language: str | None = None
    # how WhatsApp's dates are to be read; found out from the file when it is missing
    date_order: DateOrder | None = None

    def __post_init__(self) -> None:
        if self.time_zone is not None:
            try:
                ZoneInfo(self.time_zone)
            except (KeyError, ValueError, OSError) as error:
                raise InvalidInput(
                    f"--tz {self.time_zone!r} is not an IANA time zone such as Europe/Lisbon", field="tz"
                ) from error
        if self.language is not None and self.language not in LANGUAGES:
            raise InvalidInput(
                f"--language {self.language!r} is not one of {', '.join(LANGUAGES)}", field="language"
            )

    def zone_name(self, chat_id: str) -> str | None:
        """Return the zone of this chat's times without an offset; None if nobody has said it."""
        stored = self.stored_zone(chat_id)
        return self.time_zone or (stored if stored != "UTC" else None)


@dataclass(frozen=True, kw_only=True)
class Record:
    """A message and where it was read; the `ChatIn` of its chat comes before it."""

    chat_id: str
    message: MessageIn
    # "line 12" or "messages[17]", after the file's name when the source has several
    where: str
    # its time was read off a clock without a zone: another zone or date order reads another time
    by_clock: bool = False
    # the ids that a derived id would be if the date were read in another order
    aliases: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Skipped:
    """Something that is no message: a system line, a deleted message."""

    where: str
    # one of a few fixed phrases, to be counted by
    reason: str


@dataclass(frozen=True, kw_only=True)
class Broken:
    """Something that should have been a message and could not be read."""

    where: str
    reason: str
    # what comes after it is lost, too: the file breaks off or is damaged
    breaks_off: bool = False


@dataclass(frozen=True, kw_only=True)
class Notice:
    """Something that the user should know about the whole source."""

    text: str


@dataclass(frozen=True, kw_only=True)
class Times:
    """The clock by which the source's times were read, in a sentence."""

    text: str


@dataclass(frozen=True, kw_only=True)
class Ambiguous:
    """Dates that allow two readings, so that nothing else was read: somebody has to say which."""

    # as they stand in the file, with the day that they are in each order; at least one
    examples: tuple[tuple[str, date, date], ...]
    # what the two days of the examples are read by
    orders: tuple[DateOrder, DateOrder] = ("dmy", "mdy")


Parsed = ChatIn | Record | Skipped | Broken | Notice | Times | Ambiguous


def sentence(error: ValidationError) -> str:
    """Describe pydantic's finding in one short sentence that names the field.

    >>> try: MessageIn.model_validate({"external_id": "1", "content": "", "sent_at": 0})
    ... except ValidationError as error: print(sentence(error))
    sender_id is missing
    """
    first, *others = error.errors(include_url=False, include_context=False, include_input=False)
    # a misspelt field is why another one is missing
    others.sort(key=lambda other: other["type"] != "extra_forbidden")
    field = ".".join(map(str, first["loc"])) or "the record"
    said = first["msg"].removeprefix("Value error, ")
    match first["type"]:
        case "missing":
            text = f"{field} is missing"
            if others and others[0]["type"] == "extra_forbidden":
                text += f"; {_unknown(others.pop(0)['loc'])}"
        case "extra_forbidden":
            text = _unknown(first["loc"])
        case "value_error" | "assertion_error":
            text = f"{field} {said}"
        case _:
            text = f"{field}: {said[:1].lower()}{said[1:]}"
    return f"{text} (and {len(others)} more)" if others else text


def _unknown(place: Sequence[str | int]) -> str:
    name = str(place[-1])
    hint = did_you_mean(name, {**MessageIn.model_fields, **ChatIn.model_fields})
    return f"{'.'.join(map(str, place))} is not a known field" + (f", {hint}" if hint else "")


def unreadable(line: str) -> str | None:
    """Return why this line of a text file cannot be read, or None.

    Bytes that are no UTF-8 come as Python's surrogate escapes.

    >>> unreadable("caf" + b"\\xe9".decode("utf-8", "surrogateescape"))
    'is not UTF-8: byte 0xE9 after "caf"'
    """
    if len(line) > MAX_LINE_CHARS:
        return f"the line is longer than {MAX_LINE_CHARS} characters"
    if found := _NOT_UTF8.search(line):
        before = line[max(0, found.start() - 20) : found.start()]
        return f'is not UTF-8: byte 0x{ord(found[0]) - 0xDC00:02X} after "{before}"'
    return None


def chat_of(
    platform: str, chat_id: str, options: ImportOptions, *, kind: ChatKind | None = None, title: str = ""
) -> ChatIn:
    """Return the chat as a platform describes it, completed from the options.

    Raises pydantic's `ValidationError` when the id is empty or too long; a title that is too long is cut.
    """
    return ChatIn(
        chat_id=with_platform(platform, chat_id),
        platform=platform,
        kind=options.kind or kind,
        title=(title or options.title or "")[:MAX_TITLE_CHARS] or None,
        time_zone=options.time_zone,
        language=options.language,
    )


def with_platform(platform: str, identifier: str) -> str:
    """Prefix an id with its platform.

    >>> with_platform("whatsapp", "Trip: Rome"), with_platform("whatsapp", "telegram:11")
    ('whatsapp:Trip: Rome', 'telegram:11')
    """
    # an empty id stays empty, to be refused as such
    return identifier if not identifier or _PREFIXED.match(identifier) else f"{platform}:{identifier}"


def in_hours(offset: timedelta) -> str:
    """Format an offset from UTC.

    >>> in_hours(timedelta(hours=-3, minutes=-30)), in_hours(timedelta(hours=1))
    ('-03:30', '+01:00')
    """
    minutes = round(offset.total_seconds() / 60)
    return f"{'-' if minutes < 0 else '+'}{abs(minutes) // 60:02d}:{abs(minutes) % 60:02d}"


def name_of(*candidates: object) -> str:
    """Return the first text that is not blank, cut to what is stored; empty if there is none."""
    for candidate in candidates:
        if isinstance(candidate, str) and candidate.strip():
            return candidate.strip()[:MAX_NAME_CHARS]
    return ""


def with_media(text: str, media: Iterable[dict[str, Any]]) -> str:
    """Prefix the text with a word in brackets for each attachment, so that it can be found.

    Documents are named, because their names were chosen by people; names of pictures are noise.

    >>> with_media("look", [{"kind": "image", "name": "IMG-20231231-WA0001.jpg"}])
    '[image] look'
    >>> with_media("", [{"kind": "document", "name": "Lease.pdf"}])
    '[document Lease.pdf]'
    """
    words = [
        f"[document {item['name']}]"
        if item["kind"] == "document" and item.get("name")
        else f"[{item['kind']}]"
        for item in media
    ]
    return " ".join([*words, text]).strip()


_KIND_BY_SUFFIX: dict[str, MediaKind] = {
    **dict.fromkeys(("jpg", "jpeg", "png", "gif", "heic", "bmp", "avif"), "image"),
    "webp": "sticker",
    **dict.fromkeys(("mp4", "mov", "webm", "3gp", "mkv", "avi"), "video"),
    **dict.fromkeys(("opus", "ogg", "oga", "mp3", "m4a", "aac", "wav", "amr", "flac"), "audio"),
    "vcf": "contact",
}


def media_kind(file_name: str) -> MediaKind:
    """Return what kind of media a file is, by its suffix.

    >>> media_kind("PTT-20231231-WA0007.opus"), media_kind("Lease.pdf")
    ('audio', 'document')
    """
    return _KIND_BY_SUFFIX.get(file_name.rpartition(".")[2].lower(), "document")
