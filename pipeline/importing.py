"""Bring a history in: what a parser reads goes through `accept` in batches, chat by chat.

Safe to run twice and with a longer export of the same chat: what is there by its id is left alone. What has
been accepted stays, whatever happens to the rest.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial

import structlog

from pipeline.ingest import accept
from pipeline.platforms.identity import PREFIX
from pipeline.platforms.records import Broken, Notice, Parsed, Record, Skipped
from pipeline.store import overview
from pipeline.store.database import Database
from schemas.messages import ChatIn, MessageIn

log = structlog.get_logger(__name__)

BATCH = 500
"""Messages of one chat in one transaction: some 0.1 s, during which the chat's placing waits."""

HELD = 10 * BATCH
"""Messages kept back at most, in a file that has many chats in turns."""


@dataclass(frozen=True, kw_only=True)
class Stored:
    """A batch of one chat that has been accepted."""

    chat: ChatIn
    new: int
    # already there by their id
    duplicates: int
    # forgotten, or of somebody who is not to be remembered
    kept_out: int
    # of the batch: their times lie where the chat also has messages that came another way (see `Tally`)
    overlapping: int
    first_at: datetime | None
    last_at: datetime | None


Event = Stored | Skipped | Broken | Notice
"""What `store` tells of, in the order of the source."""


@dataclass(kw_only=True)
class ChatTally:
    """What an import brought one chat."""

    chat_id: str
    title: str = ""
    new: int = 0
    duplicates: int = 0
    kept_out: int = 0
    # New messages of a time at which the chat already has messages with ids of another kind: derived by an
    # import where these are the platform's own, or the platform's own where these are derived. Such ids never
    # meet, so one utterance that came both ways is stored twice.
    overlapping: int = 0
    first_at: datetime | None = None
    last_at: datetime | None = None


@dataclass(kw_only=True)
class Tally:
    """What an import did so far."""

    chats: dict[str, ChatTally] = field(default_factory=dict)
    # by reason
    skipped: Counter[str] = field(default_factory=Counter)
    broken: int = 0

    @property
    def new(self) -> int:
        """Messages stored now."""
        return sum(chat.new for chat in self.chats.values())

    @property
    def duplicates(self) -> int:
        """Messages that were there already."""
        return sum(chat.duplicates for chat in self.chats.values())

    @property
    def kept_out(self) -> int:
        """Messages that were forgotten, or whose senders are not to be remembered."""
        return sum(chat.kept_out for chat in self.chats.values())

    def add(self, event: Event) -> None:
        """Count what `store` told of."""
        match event:
            case Stored(chat=chat):
                counted = self.chats.setdefault(chat.chat_id, ChatTally(chat_id=chat.chat_id))
                counted.title = chat.title or counted.title
                counted.new += event.new
                counted.duplicates += event.duplicates
                counted.kept_out += event.kept_out
                if event.new:
                    counted.overlapping += min(event.new, event.overlapping)
                times = [counted.first_at, counted.last_at, event.first_at, event.last_at]
                known = [time for time in times if time is not None]
                counted.first_at, counted.last_at = min(known, default=None), max(known, default=None)
            case Skipped(reason=reason):
                self.skipped[reason] += 1
            case Broken():
                self.broken += 1
            case Notice():
                pass


def store(
    database: Database,
    tenant_id: str,
    parsed: Iterable[Parsed],
    *,
    settle: timedelta,
) -> Iterator[Event]:
    """Accept the messages that a parser yields; yields each accepted batch, and what was no message.

    After a `Stored` with anything new the workers of `ingest` should be hinted. `settle` is how long after
    its last message a chat's sessions wait for their summaries. Raises what `parsed` raises, and
    `DatabaseUnavailable`; what was yielded as `Stored` by then stays.
    """
    flush = partial(_flush, database, tenant_id, settle)
    chats: dict[str, _Chat] = {}
    held = 0
    for item in parsed:
        match item:
            case ChatIn():
                chats.setdefault(item.chat_id, _Chat(chat=item)).learn(item)
            case Record(chat_id=chat_id, message=message):
                chat = chats[chat_id]
                chat.messages.append(message)
                held += 1
                if len(chat.messages) >= BATCH or held >= HELD:
                    longest = max(chats.values(), key=lambda c: len(c.messages))
                    held -= len(longest.messages)
                    yield flush(longest)
            case _:
                yield item
    for chat in chats.values():
        # a chat without a single message is not made
        if chat.messages or (chat.stored and chat.changed):
            yield flush(chat)


@dataclass(kw_only=True)
class _Chat:
    """A chat of the source, with its messages that are not yet accepted."""

    chat: ChatIn
    messages: list[MessageIn] = field(default_factory=list)
    # whether there is a row of it, and whether that row says less than is known now
    stored: bool = False
    changed: bool = True
    # the times of messages with ids of the other kind, see `ChatTally.overlapping`
    others: tuple[datetime, datetime] | None = None

    def learn(self, chat: ChatIn) -> None:
        """Keep what is said anew of the chat, beside what was said before."""
        known = self.chat.model_copy(update=chat.model_dump(exclude_defaults=True))
        self.changed = self.changed or known != self.chat
        self.chat = known


def _flush(database: Database, tenant_id: str, settle: timedelta, held: _Chat) -> Stored:
    """Accept what is held of a chat."""
    messages, held.messages = held.messages, []
    if not held.stored and messages:
        derived = messages[0].external_id.startswith(PREFIX)
        with database.tenant(tenant_id) as connection:
            held.others = overview.times_of_others(
                connection, held.chat.chat_id, PREFIX, with_prefix=not derived
            )
    accepted = accept(database, tenant_id, held.chat, messages, settle=settle)
    held.stored, held.changed = True, False
    times = [message.sent_at for message in messages]
    first, last = held.others or (None, None)
    return Stored(
        chat=held.chat,
        new=accepted.new,
        duplicates=accepted.duplicates,
        kept_out=accepted.kept_out,
        overlapping=sum(first <= time <= last for time in times) if first and last else 0,
        first_at=min(times, default=None),
        last_at=max(times, default=None),
    )
