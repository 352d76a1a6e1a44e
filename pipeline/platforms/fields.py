"""Read the fields, attachments and structured content of exported messages into values of `records`."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from pydantic import TypeAdapter, ValidationError

from pipeline.platforms.records import (
    MAX_KIND_CHARS,
    MAX_LINE_CHARS,
    NO_TEXT,
    Broken,
    Deletion,
    Edit,
    Event,
    ImportOptions,
    MediaKind,
    MemberChange,
    ReadMessage,
    Record,
    Skipped,
    Times,
)
from schemas.base import FROM_PLATFORM, cut_name, in_words
from schemas.errors import InvalidInput
from schemas.messages import (
    MAX_CONTENT_BYTES,
    MAX_NAME_CHARS,
    MAX_TITLE_CHARS,
    ChatIn,
    ChatKind,
    Content,
    Id,
    MessageIn,
    SaidAt,
)

_LIVE = ImportOptions()
_ID, _TIME, _CONTENT = TypeAdapter(Id), TypeAdapter(SaidAt), TypeAdapter(Content)
_NOT_UTF8 = re.compile("[\udc80-\udcff]")
_PREFIXED = re.compile(r"[a-z][a-z0-9_-]*:\S")


def sentence(error: ValidationError) -> str:
    """Describe pydantic's findings in one sentence that names the fields.

    >>> try: MessageIn.model_validate({"external_id": "1", "content": "", "sent_at": 0})
    ... except ValidationError as error: print(sentence(error))
    sender_id is missing
    """
    errors = error.errors(include_url=False)
    return in_words(errors, ChatIn if error.title == ChatIn.__name__ else MessageIn)[0]


def unreadable(line: str) -> str | None:
    """Return why this line of a text file cannot be read, or None; bytes that are no UTF-8 are surrogate escapes.

    >>> unreadable("caf" + b"\\xe9".decode("utf-8", "surrogateescape"))
    'is not UTF-8: byte 0xE9 after "caf"'
    """
    if len(line) > MAX_LINE_CHARS:
        return f"the line is longer than {MAX_LINE_CHARS} characters"
    if match := _NOT_UTF8.search(line):
        before = line[max(0, match.start() - 20) : match.start()]
        return f'is not UTF-8: byte 0x{ord(match[0]) - 0xDC00:02X} after "{before}"'
    return None


def joined(
    lines: Iterable[str], begins: Callable[[str], object], *, leading: bool = False
) -> Iterator[tuple[int, str, list[str]]]:
    """Yield the lines that begin something, with their number and those that go on with it, up to a message's length.

    Lines before the first that begins something are left out, or stand alone where they are `leading`.

    >>> list(joined(["title", "1 a", "b", "2 c"], lambda line: line[0].isdigit()))
    [(2, '1 a', ['b']), (4, '2 c', [])]
    """
    first, more, size, begun = (0, ""), list[str](), 0, False
    for number, line in enumerate(lines, start=1):
        is_first = bool(begins(line))
        begun = begun or is_first
        if is_first or (leading and not begun):
            if first[0]:
                yield (*first, more)
            first, more, size = (number, line), [], 0
        elif size <= MAX_CONTENT_BYTES:
            more.append(line)
            size += len(line)
    if first[0]:
        yield (*first, more)


def chat_of(
    platform: str,
    chat_id: str,
    options: ImportOptions = _LIVE,
    *,
    kind: ChatKind | None = None,
    title: str = "",
) -> ChatIn:
    """Return the chat, completed from the options. Raises `ValidationError` for an unusable id; a long title is cut."""
    return ChatIn(
        chat_id=with_platform(platform, chat_id),
        platform=platform,
        kind=options.kind or kind,
        title=cut_name(title or options.title or "", MAX_TITLE_CHARS) or None,
        time_zone=options.zone_name(with_platform(platform, chat_id)),
        language=options.language,
    )


def read_message(
    where: str,
    chat_id: str,
    *,
    text: str,
    media: Sequence[dict[str, Any]],
    metadata: Mapping[str, Any],
    by_clock: bool = False,
    aliases: tuple[str, ...] = (),
    kind: str = NO_TEXT,
    **fields: Any,
) -> ReadMessage:
    """Return the message with this text and these attachments; counted by its `kind` if it has neither.

    `fields` as in `MessageIn`.
    """
    if not (content := with_media(text, media)):
        return Skipped(where=where, reason=kind)
    kept = {"media": list(media), **metadata} if media else metadata
    try:
        raw = {**fields, "content": content, "metadata": kept}
        message = MessageIn.model_validate(raw, context=FROM_PLATFORM)
    except ValidationError as error:
        return Broken(where=where, reason=sentence(error))
    return Record(chat_id=chat_id, message=message, where=where, by_clock=by_clock, aliases=aliases)


def one_or_several(
    value: Any,
    fits: Callable[[dict[str, Any]], bool],
    otherwise: str,
    read: Callable[[dict[str, Any], str], Iterable[Event]],
) -> Iterator[Event]:
    """Yield the events of a payload, or of each of a list. Raises `InvalidInput` for a payload that does not fit."""

    def checked(item: dict[str, Any], where: str) -> Iterator[Event]:
        if fits(item):
            yield from read(item, where)
        else:
            yield Broken(where=where, reason=otherwise)

    if isinstance(value, list):
        yield from each_of(value, "", checked)
    elif isinstance(value, dict) and fits(value):
        yield from read(value, "")
    else:
        raise InvalidInput(f"the body {otherwise}", field="body")


def each_of(
    items: Iterable[Any], where: str, read: Callable[[dict[str, Any], str], Iterable[Event]]
) -> Iterator[Event]:
    """Yield the events of each item of a list; an item that cannot be read does not stop the others."""
    for number, item in enumerate(items):
        place = f"{where}[{number}]"
        if isinstance(item, dict):
            yield from guarded(place, read(item, place))
        else:
            yield Broken(where=place, reason="is no JSON object")


def guarded(where: str, events: Iterable[Event]) -> Iterator[Event]:
    """Yield the events of one item, up to the first that cannot be read."""
    try:
        yield from events
    except ValidationError as error:
        yield Broken(where=where, reason=sentence(error))
    except ValueError as error:
        yield Broken(where=where, reason=str(error))


def not_kept(where: str, kind: object) -> Skipped:
    """Return the note that counts something not kept, by the platform's name of its kind."""
    return Skipped(where=where, reason=str(kind)[:MAX_KIND_CHARS])


def edited(record: ReadMessage, edited_at: object) -> Iterator[Event]:
    """Yield a message that the platform sends whole after its edit, and the edit. Raises `ValueError` for its time."""
    yield record
    if isinstance(record, Record):
        message = record.message
        yield Edit(
            where=record.where,
            chat_id=record.chat_id,
            external_id=message.external_id,
            content=message.content,
            edited_at=time_of(edited_at, "the time of the edit"),
            sender_id=message.sender_id,
            said_at=message.sent_at,
        )


def edit_alone(
    where: str, chat_id: str, external_id: str, content: str, edited_at: object, *, sender_id: str | None
) -> Edit | Skipped:
    """Return an edit without its whole message; counted if what it says now is of no kind that is read.

    Raises `ValueError` for values that cannot be stored.
    """
    if not content:
        return Skipped(where=where, reason="edit without text")
    at = time_of(edited_at, "the time of the edit")
    return Edit(
        where=where,
        chat_id=chat_id,
        external_id=external_id,
        content=_checked(_CONTENT, content, "the new text"),
        edited_at=at,
        sender_id=sender_id,
        said_at=at,
    )


def deletion(
    where: str, chat_id: str, external_id: object, name: str, *, by: str | None = None, at: object = None
) -> Deletion:
    """Return a deletion. Raises `ValueError` for an invalid id or time."""
    deleted, when = id_of(external_id, name), time_of(at, "the time of the deletion")
    return Deletion(where=where, chat_id=chat_id, external_id=deleted, by=by, at=when)


def moved_in_or_out(
    where: str, chat_id: str, people: tuple[str, ...], *, came: bool, at: datetime | None = None
) -> MemberChange:
    """Return the event that people joined a chat, or left it."""
    joined, left = (people, ()) if came else ((), people)
    return MemberChange(where=where, chat_id=chat_id, joined=joined, left=left, at=at)


def id_of(value: object, name: str) -> str:
    """Return an id as text. Raises `ValueError` that names the field.

    >>> id_of(-100420, "chat.id")
    '-100420'
    """
    return str(_checked(_ID, value, name))


def list_of(value: object, name: str) -> list[Any]:
    """Return a list, empty for None. Raises `ValueError` that names the field."""
    if value is None or isinstance(value, list):
        return value or []
    raise ValueError(f"{name} is no list")


def time_of(value: object, name: str) -> datetime | None:
    """Parse a platform's time, or return None. Raises `ValueError` that names the field."""
    parsed: datetime | None = None if value is None else _checked(_TIME, value, name)
    return parsed


def _checked(adapter: TypeAdapter[Any], value: object, name: str) -> Any:
    if value is None:
        raise ValueError(f"{name} is missing")
    try:
        return adapter.validate_python(value, context=FROM_PLATFORM)
    except ValidationError as error:
        raise ValueError(
            in_words([{**error.errors(include_url=False)[0], "loc": (name,)}], None)[0]
        ) from None


def exact_times(
    source: str, zone: str | None, exported: str = "", advice: str = ": say --tz, as in Europe/Lisbon"
) -> Times:
    """Return the notice that times are exact, with their source and the clock that shows them."""
    shown = f"by the clock of {zone}" if zone is not None else f"in UTC{exported}{advice}"
    return Times(text=f"exact, {source}; shown {shown}")


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
    """Return the first text that is not blank, cut to the stored length; empty if there is none."""
    for candidate in candidates:
        if isinstance(candidate, str) and candidate.strip():
            return cut_name(candidate.strip(), MAX_NAME_CHARS)
    return ""


def dict_of(value: object, *path: str) -> dict[str, Any]:
    """Return the object at a path in a JSON value, or the value itself; empty if it is not an object."""
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}


def dicts_of(value: object) -> list[dict[str, Any]]:
    """Return the objects in a value of JSON, if it is a list."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def text_of(value: object) -> str:
    """Return a JSON value, stripped, if it is a text; otherwise an empty text."""
    return value.strip() if isinstance(value, str) else ""


def attachment(kind: str, name: str) -> dict[str, str]:
    """Return an attachment in the form that metadata stores."""
    return {"kind": kind, "name": name} if name else {"kind": kind}


def file_attachments(names: Iterable[object]) -> list[dict[str, str]]:
    """Return attachments by their paths or media types; one with neither is of the kind `media`.

    >>> file_attachments(["media/Lease.pdf", "image/jpeg", None])
    [{'kind': 'document', 'name': 'Lease.pdf'}, {'kind': 'image'}, {'kind': 'media'}]
    """
    parts = [(name if isinstance(name, str) else "").rpartition("/") for name in names]
    return [
        attachment(media_kind(file), file)
        if "." in file
        else attachment(above if above in ("image", "video", "audio") else "media", "")
        for above, _, file in parts
    ]


def with_media(text: str, media: Iterable[dict[str, Any]]) -> str:
    """Prefix the text with a word in brackets for each attachment, and a document's name, so that it can be found.

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


_KIND_BY_TYPE: dict[str, MediaKind] = {"image": "image", "video": "video", "audio": "audio"}
_KIND_BY_SUFFIX: dict[str, MediaKind] = {
    **dict.fromkeys(("jpg", "jpeg", "png", "gif", "heic", "bmp", "avif"), "image"),
    "webp": "sticker",
    **dict.fromkeys(("mp4", "mov", "webm", "3gp", "mkv", "avi"), "video"),
    **dict.fromkeys(("opus", "ogg", "oga", "mp3", "m4a", "aac", "wav", "amr", "flac"), "audio"),
    "vcf": "contact",
}


def media_kind(file_name: str, mime: str = "") -> MediaKind:
    """Return the kind of media of a file, by its type where the platform tells it, or by its suffix.

    >>> media_kind("PTT-20231231-WA0007.opus"), media_kind("Lease.pdf"), media_kind("clip.webm", "audio/webm")
    ('audio', 'document', 'audio')
    """
    return _KIND_BY_TYPE.get(mime.partition("/")[0]) or _KIND_BY_SUFFIX.get(
        file_name.rpartition(".")[2].lower(), "document"
    )
