"""Values that parsers of exports and of events take and yield."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any, Literal
from zoneinfo import ZoneInfo

from schemas import languages
from schemas.errors import InvalidInput
from schemas.messages import ChatIn, ChatKind, MessageIn

DateOrder = Literal["dmy", "mdy", "ymd"]
MAX_LINE_CHARS = 1024 * 1024
"""Lines of text files come cut to one character more than this: a parser sees that they were longer."""
MAX_KIND_CHARS = 60
NO_TEXT = "message without text"
OTHER_CHAT = "of a chat that the source is not for"

MediaKind = Literal["image", "video", "audio", "sticker", "document", "contact", "media"]


@dataclass(frozen=True, kw_only=True)
class ImportOptions:
    """What the user specifies where the file does not. Raises `InvalidInput` for an unknown time zone or language."""

    # names the chat of a source that holds one; the platform is put in front when there is no colon
    chat_id: str | None = None
    # what the chat is called, where the file does not say (a WhatsApp export says it in its name)
    title: str | None = None
    # the name of a WhatsApp export, which says what the chat is called if nobody does
    file_name: str | None = None
    # the clock of times without an offset, an IANA name; when it is needed and missing, that of the stored chat, else
    # UTC with a notice
    time_zone: str | None = None
    # the zone of a chat that is stored already, by its id; `UTC` tells nothing, as it is what a chat begins with
    stored_zone: Callable[[str], str | None] = lambda _: None
    # what every chat of the source is, where the file does not tell or is wrong
    kind: ChatKind | None = None
    # the language of every chat of the source, by name or code; kept by name
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
        if self.language is not None:
            try:
                object.__setattr__(self, "language", languages.normal(self.language))
            except ValueError as error:
                raise InvalidInput(f"--language {error}", field="language") from error

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
    """Something other than a message: a system line, a deleted message."""

    where: str
    # one of a few fixed phrases, to be counted by
    reason: str


@dataclass(frozen=True, kw_only=True)
class Unread:
    """Something that people wrote or sent and no parser reads; see `kinds`."""

    where: str
    # as people write it, as in Telegram
    platform: str
    # what it is, a noun in the singular; of an unknown kind the platform's own name, and its text is kept
    kind: str
    known: bool = True


@dataclass(frozen=True, kw_only=True)
class Carried:
    """A row that another Backscroll wrote, other than a message; see `pipeline.operations.transfer`."""

    where: str
    # what it is: `header`, `forgotten`, `end`, or a part of `pipeline.store.operations.transfer`
    of: str
    row: dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Broken:
    """Something that should have been a message and could not be read."""

    where: str
    reason: str
    # the rest is lost, too: the file breaks off or is damaged
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
    """Dates that allow two readings: nothing is imported until the user chooses."""

    # as they stand in the file, with the day that they are in each order; at least one
    examples: tuple[tuple[str, date, date], ...]
    # what the two days of the examples are read by
    orders: tuple[DateOrder, DateOrder] = ("dmy", "mdy")


ReadMessage = Record | Skipped | Broken
"""The outcome of reading one message."""
Parsed = ChatIn | Record | Skipped | Unread | Broken | Notice | Times | Ambiguous | Carried


@dataclass(frozen=True, kw_only=True)
class Edit:
    """A message's new text; if the platform sends the whole message, its `Record` comes first."""

    where: str
    chat_id: str
    external_id: str
    content: str
    # the platform's time of the edit; none: now
    edited_at: datetime | None
    # who edited it, as only its sender may, and when the message was sent, as far as it is told
    sender_id: str | None = None
    said_at: datetime | None = None


@dataclass(frozen=True, kw_only=True)
class Deletion:
    """A message that was deleted."""

    where: str
    chat_id: str
    external_id: str
    # who deleted it; none: the platform has seen to it that they may
    by: str | None = None
    # when, as far as it is told
    at: datetime | None = None


@dataclass(frozen=True, kw_only=True)
class MemberChange:
    """People, without bots, who joined a chat or left it."""

    where: str
    chat_id: str
    joined: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    # when; none: now
    at: datetime | None = None


@dataclass(frozen=True, kw_only=True)
class Moderators:
    """Members who may delete what others wrote, and those who may not any more (None: all others)."""

    where: str
    chat_id: str
    people: tuple[str, ...] = ()
    former: tuple[str, ...] | None = ()


@dataclass(frozen=True, kw_only=True)
class OtherId:
    """Another id of a person, which the platform shows beside the one that is used; a direct chat has it, too."""

    where: str
    other_id: str
    id: str
    # when; none: now
    at: datetime | None = None
    # of the direct chat: `@` and the account of ours, as in its id
    account: str = ""


@dataclass(frozen=True, kw_only=True)
class NewChatId:
    """A chat got another id."""

    where: str
    chat_id: str
    to: str
    # whoever may close the one says so, and nobody has asked the other
    is_claimed: bool = False


@dataclass(frozen=True, kw_only=True)
class NewNumber:
    """A person has another id, in all chats; the former one may be somebody else's since."""

    where: str
    # theirs, and of direct chats with them
    chat_id: str
    to: str
    # when; none: now
    at: datetime | None


@dataclass(frozen=True, kw_only=True)
class BotAccount:
    """The account of ours that the events behind this one are with: ids of direct chats end with `@` and its own."""

    where: str
    platform: str
    account: str
    # by whoever passes the events on, as they do not say it; those that come without a name are another account's
    is_stated: bool = False


Event = (
    ChatIn
    | Record
    | Edit
    | Deletion
    | MemberChange
    | Moderators
    | NewChatId
    | NewNumber
    | OtherId
    | BotAccount
    | Skipped
    | Unread
    | Broken
)
"""What an event of a platform says; of `Skipped` and `Unread` the reason and the kind are the platform's own words."""
