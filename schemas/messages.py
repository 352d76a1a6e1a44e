"""What a bot hands over: one message, and the chat that it stands in."""

import json
import re
from datetime import UTC, datetime
from typing import Annotated, Any, Literal
from zoneinfo import ZoneInfo

from pydantic import AfterValidator, BeforeValidator, Field, field_validator

from schemas.limits import Closed

MAX_CONTENT_BYTES = 64 * 1024
MAX_ID_CHARS = 255
MAX_NAME_CHARS = 255
MAX_TITLE_CHARS = 500
MAX_METADATA_BYTES = 16 * 1024
MAX_METADATA_DEPTH = 8
MAX_BATCH = 1000
"""Messages in one request or one payload task."""
MAX_BATCH_BYTES = 8 * 1024 * 1024
"""Their texts together; the door takes bodies of no more."""

Role = Literal["user", "assistant", "system", "tool"]
ChatKind = Literal["group", "direct", "thread"]

# Postgres stores neither NUL nor halves of surrogate pairs; both come out of broken clients.
_NUMBER = re.compile(r"-?\d+(\.\d+)?")
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
# Below this many seconds since 1970 a number is seconds (the year 5138), above it milliseconds.
_MILLISECONDS_FROM = 1e11
_NO_SUCH_TIME = "is not a time that a calendar knows"
FIRST_YEAR, LAST_YEAR = 2, 9998


def clean_text(text: str) -> str:
    """The text without what Postgres cannot store (NUL, lone surrogates).

    >>> clean_text("a\\x00b")
    'ab'
    """
    return _UNSTORABLE.sub("", text)


def parse_time(value: object) -> object:
    """ISO 8601 text or a number of seconds or milliseconds since 1970 as an aware datetime.

    A time without an offset is refused: whose clock it was cannot be guessed here.

    >>> parse_time(1700000000)
    datetime.datetime(2023, 11, 14, 22, 13, 20, tzinfo=datetime.timezone.utc)
    """
    if isinstance(value, bool):
        raise ValueError("must be ISO 8601 with an offset, or epoch seconds or milliseconds")  # noqa: TRY004
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
            raise ValueError("must be ISO 8601 with an offset, or epoch seconds or milliseconds") from error
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise ValueError("has no time zone: add an offset such as Z or +02:00")
        try:
            return value.astimezone(UTC)
        except (OverflowError, ValueError) as error:
            # in UTC it would lie before the year 1 or after the year 9999
            raise ValueError(_NO_SUCH_TIME) from error
    return value


def _has_room(value: datetime) -> datetime:
    if not FIRST_YEAR <= value.year <= LAST_YEAR:
        raise ValueError(f"must lie in the years {FIRST_YEAR} to {LAST_YEAR}")
    return value


def cleaned(value: Any) -> Any:
    """`clean_text` for what is a text at all."""
    return clean_text(value) if isinstance(value, str) else value


Time = Annotated[datetime, BeforeValidator(parse_time)]
# When something was said: clocks of other zones must be able to show it, and gaps of days be added to it.
SaidAt = Annotated[Time, AfterValidator(_has_room)]
Id = Annotated[
    str,
    BeforeValidator(lambda value: value.strip() if isinstance(value, str) else value),
    BeforeValidator(cleaned),
]


def _storable(value: str) -> str:
    value = clean_text(value)
    if (size := len(value.encode())) > MAX_CONTENT_BYTES:
        raise ValueError(f"is {size} bytes long; at most {MAX_CONTENT_BYTES} are taken")
    return value


# What was said, cleaned and of a size that is taken.
Content = Annotated[str, AfterValidator(_storable)]


def _depth(value: Any) -> int:
    if isinstance(value, dict):
        return 1 + max(map(_depth, value.values()), default=0)
    if isinstance(value, list):
        return 1 + max(map(_depth, value), default=0)
    return 0


def _clean_json(value: Any) -> Any:
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, dict):
        return {clean_text(str(k)): _clean_json(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_clean_json(v) for v in value]
    return value


def _modest(value: dict[str, Any]) -> dict[str, Any]:
    if _depth(value) > MAX_METADATA_DEPTH:
        raise ValueError(f"is nested deeper than {MAX_METADATA_DEPTH} levels")
    value = _clean_json(value)
    # raises ValueError for inf and NaN, which JSON does not know
    if (size := len(json.dumps(value, default=str, allow_nan=False))) > MAX_METADATA_BYTES:
        raise ValueError(f"is {size} bytes long as JSON; at most {MAX_METADATA_BYTES} are taken")
    return value


# Whatever else is known, cleaned and of a size that is taken.
Metadata = Annotated[dict[str, Any], AfterValidator(_modest)]


class ChatIn(Closed):
    """What is known of a chat beside its messages; unknown fields keep what is stored."""

    # the platform's id with its platform in front, `telegram:-100…`
    chat_id: Annotated[Id, Field(min_length=1, max_length=MAX_ID_CHARS)]
    # `telegram`, `slack` …; the chat id's prefix when not given
    platform: Annotated[str, Field(max_length=50)] = ""
    kind: ChatKind | None = None
    title: Annotated[Id, Field(max_length=MAX_TITLE_CHARS)] | None = None
    # an IANA name, `Europe/Lisbon`
    time_zone: str | None = None
    # a Postgres text search configuration, `english`
    language: str | None = None
    # off: the messages are kept, but memory is neither made of them nor searched
    memory: bool | None = None

    @field_validator("time_zone")
    @classmethod
    def _known_zone(cls, value: str | None) -> str | None:
        if value is not None:
            try:
                ZoneInfo(value)
            except (KeyError, ValueError, OSError) as error:
                raise ValueError(f"{value!r} is not an IANA time zone such as Europe/Lisbon") from error
        return value

    @field_validator("language")
    @classmethod
    def _known_language(cls, value: str | None) -> str | None:
        if value is not None and value not in LANGUAGES:
            raise ValueError(f"{value!r} is not one of {', '.join(LANGUAGES)}")
        return value


class MessageIn(Closed):
    """One utterance in a chat, as a platform or a bot tells it."""

    # the platform's own id of this message, unique within its chat
    external_id: Annotated[Id, Field(min_length=1, max_length=MAX_ID_CHARS)]
    # who spoke: an id on the platform with the platform in front, `telegram:11`
    sender_id: Annotated[Id, Field(min_length=1, max_length=MAX_ID_CHARS)]
    sender_name: Annotated[Id, Field(max_length=MAX_NAME_CHARS)] = ""
    role: Role = "user"
    content: Content
    # the sender's time
    sent_at: SaidAt
    # orders messages of one instant, such as the parts of one long answer; without it ids that are numbers do so, and
    # else the order in which they are handed over
    position: Annotated[int, Field(ge=0, le=2**31 - 1)] = 0
    # the bot or persona that spoke or was spoken to
    agent_id: Annotated[Id, Field(max_length=MAX_ID_CHARS)] | None = None
    # the thread that an agent names itself; empty: sessions are cut by inactivity alone
    session_key: Annotated[Id, Field(max_length=MAX_ID_CHARS)] = ""
    # with a session_key: this message is the last of its session
    closes_session: bool = False
    # the external id of the message in the same chat that this one answers; that one need not be stored
    reply_to: Annotated[Id, Field(max_length=MAX_ID_CHARS)] | None = None
    # a forum's topic or a thread that is a conversation of its own within the chat, by the platform's id
    thread: Annotated[Id, Field(max_length=MAX_ID_CHARS)] | None = None
    # tool calls, captions …
    metadata: Metadata = Field(default_factory=dict)


# Postgres's text search configurations that a stored `tsv` may use. The generated column is a CASE over
# literal names (its expression must be immutable), so this list and migration 0001 change together.
LANGUAGES = (
    "simple",
    "arabic",
    "armenian",
    "basque",
    "catalan",
    "danish",
    "dutch",
    "english",
    "finnish",
    "french",
    "german",
    "greek",
    "hindi",
    "hungarian",
    "indonesian",
    "irish",
    "italian",
    "lithuanian",
    "nepali",
    "norwegian",
    "portuguese",
    "romanian",
    "russian",
    "serbian",
    "spanish",
    "swedish",
    "tamil",
    "turkish",
    "yiddish",
)
DEFAULT_LANGUAGE = "english"
