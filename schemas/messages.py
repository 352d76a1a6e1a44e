"""Messages and chats as bots send them, and the types that all requests share."""

import json
import re
from datetime import UTC, datetime
from functools import partial
from typing import Annotated, Any, Literal
from zoneinfo import ZoneInfo

from pydantic import AfterValidator, BeforeValidator, Field, ValidationInfo

from schemas import languages
from schemas.base import FROM_PLATFORM, Closed, at_most, at_most_bytes, up_to
from schemas.masking import masked, masked_json

MAX_CONTENT_BYTES = 64 * 1024
MAX_ID_CHARS = 255
MAX_NAME_CHARS = 255
MAX_TITLE_CHARS = 500
MAX_QUERY_CHARS = 8000
MAX_METADATA_BYTES = 16 * 1024
MAX_METADATA_DEPTH = 8
MAX_POSITION = 2**31 - 1
MAX_BATCH = 1000
"""Messages in one request or one payload task."""
MAX_BATCH_BYTES = 8 * 1024 * 1024
"""Their texts together; the HTTP API takes bodies of no more."""
FORWARDED = "forwarded_from"
"""Metadata key for the author of a forwarded message, whose sender states nothing by it."""
ORIGINAL_BYTES, ORIGINAL_METADATA_BYTES = "original_bytes", "original_metadata_bytes"
"""Metadata keys for the size of a text, or of metadata, that was too large and is not stored whole."""
CUT = frozenset((ORIGINAL_BYTES, ORIGINAL_METADATA_BYTES))

Role = Literal["user", "assistant", "system", "tool"]
ChatKind = Literal["group", "direct", "thread"]

_NUMBER = re.compile(r"-?\d+(\.\d+)?")
# Postgres stores neither NUL nor lone surrogates; broken clients send both. A soft hyphen, which is seen only at the
# end of a line, would make another word of the one that it is in.
_UNSTORABLE = re.compile("[\x00\u00ad\ud800-\udfff]")
# Below this many seconds since 1970 a number is seconds (the year 5138), above it milliseconds.
_MILLISECONDS_FROM = 1e11
_BAD_FORM = "must be ISO 8601 with an offset, or epoch seconds or milliseconds"
_NO_SUCH_TIME = "is not a time that a calendar knows"
FIRST_YEAR, LAST_YEAR = 2, 9998


def clean_text(text: str) -> str:
    """Remove what Postgres cannot store (NUL, lone surrogates), and soft hyphens.

    >>> clean_text("a\\x00b"), clean_text("Haus\\u00adtür")
    ('ab', 'Haustür')
    """
    return _UNSTORABLE.sub("", text)


def parse_time(value: object) -> object:
    """Parse ISO 8601 text, or a number of seconds or milliseconds since 1970, into an aware datetime.

    A time without an offset is refused: its time zone cannot be guessed here.

    >>> parse_time(1700000000)
    datetime.datetime(2023, 11, 14, 22, 13, 20, tzinfo=datetime.timezone.utc)
    """
    if isinstance(value, bool):
        raise ValueError(_BAD_FORM)  # noqa: TRY004
    if isinstance(value, str) and _NUMBER.fullmatch(value.strip()):
        value = float(value)
    if isinstance(value, int | float):
        try:
            seconds = value / 1000 if abs(value) >= _MILLISECONDS_FROM else value
            return datetime.fromtimestamp(seconds, UTC)
        except (OverflowError, ValueError, OSError) as error:
            raise ValueError(_NO_SUCH_TIME) from error
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value.strip())
        except ValueError as error:
            raise ValueError(_BAD_FORM) from error
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise ValueError("has no time zone: add an offset such as Z or +02:00")
        try:
            return value.astimezone(UTC)
        except (OverflowError, ValueError) as error:
            # in UTC it is before the year 1 or after the year 9999
            raise ValueError(_NO_SUCH_TIME) from error
    return value


def _has_room(value: datetime) -> datetime:
    if not FIRST_YEAR <= value.year <= LAST_YEAR:
        raise ValueError(f"must be in the years {FIRST_YEAR} to {LAST_YEAR}")
    return value


def cleaned(value: Any) -> Any:
    """Apply `clean_text` to a text; return anything else as it is."""
    return clean_text(value) if isinstance(value, str) else value


def written(value: Any) -> Any:
    """Apply `clean_text` to a text that somebody wrote, and mask credentials; return anything else as it is."""
    return masked(clean_text(value)) if isinstance(value, str) else value


Time = Annotated[datetime, BeforeValidator(parse_time, json_schema_input_type=datetime | float)]
# When something was said: other time zones must be able to show it, and days be added to it.
SaidAt = Annotated[Time, AfterValidator(_has_room)]


def _stripped(value: Any) -> Any:
    return value.strip() if isinstance(value, str) else value


def _identifier(value: Any) -> Any:
    """Turn an id that is a whole number, as Telegram's are, into its digits."""
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return str(value) if is_number else _stripped(value)


RowId = Annotated[int, Field(ge=1, lt=2**63)]
"""The number of a row in the database."""
Name = Annotated[str, BeforeValidator(_stripped), BeforeValidator(written)]
_Identifier = Annotated[
    str, BeforeValidator(_identifier, json_schema_input_type=str | int), BeforeValidator(cleaned)
]
Id = Annotated[_Identifier, Field(min_length=1, max_length=MAX_ID_CHARS)]
IdOrEmpty = Annotated[_Identifier, Field(max_length=MAX_ID_CHARS)]


def _not_blank(value: str) -> str:
    if not value.strip():
        raise ValueError("is empty")
    return value


NOT_BLANK = AfterValidator(_not_blank)
QueryText = Annotated[
    str, BeforeValidator(written), Field(min_length=1, max_length=MAX_QUERY_CHARS), NOT_BLANK
]
MAX_QUERIES = 5
"""Other queries that are searched together with a question."""
Queries = Annotated[list[QueryText], at_most(MAX_QUERIES), Field(max_length=MAX_QUERIES)]


# The text of a message, cleaned, masked and limited in size.
Content = Annotated[str, AfterValidator(written), at_most_bytes(MAX_CONTENT_BYTES)]


clean_json = partial(masked_json, change=clean_text)
"""Apply `clean_text` to every text and key of a JSON value."""


def _modest(value: dict[str, Any], info: ValidationInfo) -> dict[str, Any]:
    value = masked_json(value, most=MAX_METADATA_DEPTH, change=written)
    # raises ValueError for inf and NaN, which JSON does not know
    if (size := len(json.dumps(value, default=str, allow_nan=False))) <= MAX_METADATA_BYTES:
        return value
    if info.context is not FROM_PLATFORM:
        raise ValueError(f"is {size} bytes long as JSON; at most {MAX_METADATA_BYTES} are taken")
    kept: dict[str, Any] = {ORIGINAL_METADATA_BYTES: size}
    room = MAX_METADATA_BYTES - len(json.dumps(kept))
    for key in sorted(value, key=lambda key: len(str(value[key]))):
        if (room := room - len(json.dumps({key: value[key]}, default=str))) < 0:
            break
        kept[key] = value[key]
    return kept


# Further data, cleaned, masked and limited in size and depth.
Metadata = Annotated[dict[str, Any], AfterValidator(_modest)]


def _known_zone(value: str) -> str:
    try:
        ZoneInfo(value)
    except (KeyError, ValueError, OSError) as error:
        raise ValueError(f"{value!r} is not an IANA time zone such as Europe/Lisbon") from error
    return value


TimeZone = Annotated[str, AfterValidator(_known_zone)]
Language = Annotated[str, AfterValidator(languages.normal)]


def _known_or_auto(value: str) -> str:
    return value if value == languages.AUTO else languages.normal(value)


LanguageOrAuto = Annotated[str, AfterValidator(_known_or_auto)]


class ChatIn(Closed):
    """A chat's own data; fields that are left out keep what is stored."""

    chat_id: Id
    """The platform's id with the platform as prefix, such as `telegram:-100200`."""
    platform: Annotated[str, Field(max_length=50)] = ""
    """Such as `telegram` or `slack`; empty: the prefix of the chat id."""
    kind: ChatKind | None = None
    title: Annotated[Name, up_to(MAX_TITLE_CHARS), Field(max_length=MAX_TITLE_CHARS)] | None = None
    time_zone: TimeZone | None = None
    """An IANA name, such as `Europe/Lisbon`."""
    language: LanguageOrAuto | None = None
    """By name or ISO 639 code, such as `german`, `de` or `german+english`; `auto`: detected, as for a chat of which
    nobody says it."""
    memory: bool | None = None
    """Whether memory is made of its messages and searched; they are stored in any case."""


class MessageIn(Closed):
    """A message in a chat."""

    external_id: Id
    """The platform's own id of the message, unique within its chat."""
    sender_id: Id
    """The sender's id with the platform as prefix, such as `telegram:11`."""
    sender_name: Annotated[Name, up_to(MAX_NAME_CHARS), Field(max_length=MAX_NAME_CHARS)] = ""
    role: Role = "user"
    content: Content
    sent_at: SaidAt
    """The sender's time."""
    position: Annotated[int, Field(ge=0, le=MAX_POSITION)] = 0
    """Orders messages of the same time, such as the parts of a long answer. Without it they are ordered by
    their ids, if these are numbers, else as they are sent."""
    agent_id: IdOrEmpty | None = None
    """The bot or persona that sent or received the message."""
    session_key: IdOrEmpty = ""
    """A session that an agent names itself; empty: sessions are cut only by inactivity."""
    closes_session: bool = False
    """With a session_key: whether this message is the last of its session."""
    reply_to: IdOrEmpty | None = None
    """The external id of the message that this one answers, in the same chat; it need not be stored."""
    thread: IdOrEmpty | None = None
    """The platform's id of a forum topic or thread, a conversation of its own within the chat."""
    metadata: Metadata = Field(default_factory=dict)
    """Further data, such as captions. With `forwarded_from`, a name or an empty text, the words are not the sender's.
    `tool_calls`, as chat models answer with them, are the text of a message that has none."""
