"""Count the messages of an import, chat by chat."""

from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime
from heapq import nlargest
from typing import assert_never

from pipeline.ingest import languages, left_out
from pipeline.platforms.records import Ambiguous, Broken, Notice, Skipped, Times, Unread
from pipeline.store.chats.chat_languages import DECLARED
from pipeline.store.connections.database import Database
from pipeline.store.operations import stats
from schemas.bots.events import Reason
from schemas.messages import ChatIn

CHATS_WITH_LANGUAGE = 50
"""Chats of an import, largest first, whose detected language is compared with the declared one."""


@dataclass(frozen=True, kw_only=True)
class Stored:
    """An accepted batch of one chat."""

    chat: ChatIn
    new: int
    # already stored under their id, and left in place
    duplicates: int
    # already stored, and moved to the time read now
    moved: int
    # forgotten, pruned, or sent by somebody whose memory is off
    kept_out: int
    # stored with a text or metadata that had to be cut
    cut: int = 0
    # sent at a time for which the chat has messages from another source (see `ChatTally`)
    overlapping: int = 0
    # dated in the future, so that they count as sent on arrival
    ahead: int = 0
    # a sample of its texts
    texts: list[str] = field(default_factory=list)


Event = Stored | Skipped | Unread | Broken | Notice | Times | Ambiguous
"""What an import yields, in the order of the source."""


@dataclass(kw_only=True)
class ChatTally:
    """The counts of one chat."""

    chat_id: str
    title: str = ""
    new: int = 0
    duplicates: int = 0
    moved: int = 0
    kept_out: int = 0
    # New messages sent at a time for which the chat has messages with ids of the other kind (derived by an import, or
    # the platform's own). Such ids never match, so a message that came both ways is stored twice.
    overlapping: int = 0
    texts: list[str] = field(default_factory=list)


@dataclass(kw_only=True)
class Tally:
    """The counts of an import so far."""

    chats: dict[str, ChatTally] = field(default_factory=dict)
    # totals of all chats
    new: int = 0
    duplicates: int = 0
    moved: int = 0
    kept_out: int = 0
    # of all that is not stored, or not whole
    left_out: Counter[Reason] = field(default_factory=Counter)
    # by reason
    skipped: Counter[str] = field(default_factory=Counter)
    # by (platform, kind, whether the kind is known)
    unread: Counter[tuple[str, str, bool]] = field(default_factory=Counter)
    # where the source breaks off: what is missing there is not counted
    breaks_off: list[str] = field(default_factory=list)

    def add(self, event: Event) -> None:
        """Count one event."""
        if isinstance(event, Skipped | Unread | Broken):
            self.left_out[left_out.reason_of(event)] += 1
        match event:
            case Stored(chat=chat):
                self.left_out.update({"kept_out": event.kept_out, "cut": event.cut})
                of_chat = self.chats.setdefault(chat.chat_id, ChatTally(chat_id=chat.chat_id))
                of_chat.title = chat.title or of_chat.title
                for counts in (self, of_chat):
                    counts.new += event.new
                    counts.duplicates += event.duplicates
                    counts.moved += event.moved
                    counts.kept_out += event.kept_out
                of_chat.overlapping += min(event.new, event.overlapping)
                of_chat.texts += event.texts
            case Skipped(reason=reason):
                self.skipped[reason] += 1
            case Unread(platform=platform, kind=kind, known=known):
                self.unread[platform, kind, known] += 1
            case Broken(where=where, breaks_off=breaks_off):
                if breaks_off:
                    self.breaks_off.append(where)
            case Notice() | Times() | Ambiguous():
                pass
            case _:
                assert_never(event)


@dataclass(frozen=True, kw_only=True)
class StoredChat:
    """A chat as stored after an import."""

    time_zone: str
    language: str
    first_at: datetime | None
    last_at: datetime | None
    # the detected language, if it differs from the declared one
    detected_language: str | None


def stored_chats(database: Database, tenant_id: str, tally: Tally) -> dict[str, StoredChat]:
    """Return the chats of an import by their ids, with the time range of all their messages."""
    largest = nlargest(CHATS_WITH_LANGUAGE, tally.chats.values(), key=lambda chat: len(chat.texts))
    looked_at = {chat.chat_id for chat in largest}
    stored = {}
    with database.tenant(tenant_id) as connection:
        for row in stats.times(connection, list(tally.chats)):
            compared = row.chat_id in looked_at and row.language_by == DECLARED
            stored[row.chat_id] = StoredChat(
                time_zone=row.time_zone,
                language=row.language,
                first_at=row.first_at,
                last_at=row.last_at,
                detected_language=languages.undeclared_language(tally.chats[row.chat_id].texts, row.language)
                if compared
                else None,
            )
    return stored
