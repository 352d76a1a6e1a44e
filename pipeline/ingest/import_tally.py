"""Count what an import brings, chat by chat."""

from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime
from heapq import nlargest
from typing import assert_never

from pipeline.ingest import languages
from pipeline.platforms.records import Ambiguous, Broken, Notice, Skipped, Times, Unread
from pipeline.store.chats.chat_languages import DECLARED
from pipeline.store.connections.database import Database
from pipeline.store.operations import stats
from schemas.messages import ChatIn

CHATS_WITH_LANGUAGE = 50
"""Chats of an import, those with the most texts, whose language is compared with the declared one."""


@dataclass(frozen=True, kw_only=True)
class Stored:
    """An accepted batch of one chat."""

    chat: ChatIn
    new: int
    # already there by their id, and left where they are
    duplicates: int
    # there, and moved to the time that is read now
    moved: int
    # forgotten, pruned, or of somebody who is not to be remembered
    kept_out: int
    # of a time at which the chat already has messages from another source (see `ChatTally`)
    overlapping: int = 0
    # of a time in the future, so that they count as sent when they came
    ahead: int = 0
    # some of its texts
    texts: list[str] = field(default_factory=list)


Event = Stored | Skipped | Unread | Broken | Notice | Times | Ambiguous
"""What an import yields, in the order of the source."""


@dataclass(kw_only=True)
class ChatTally:
    """What an import brought to one chat."""

    chat_id: str
    title: str = ""
    new: int = 0
    duplicates: int = 0
    moved: int = 0
    kept_out: int = 0
    # New messages of a time at which the chat already has messages with ids of another kind: derived by an
    # import where these are the platform's own, or the platform's own where these are derived. Such ids never
    # match, so one message that came both ways is stored twice.
    overlapping: int = 0
    texts: list[str] = field(default_factory=list)


@dataclass(kw_only=True)
class Tally:
    """What an import did so far."""

    chats: dict[str, ChatTally] = field(default_factory=dict)
    # of all chats
    new: int = 0
    duplicates: int = 0
    moved: int = 0
    kept_out: int = 0
    # by reason
    skipped: Counter[str] = field(default_factory=Counter)
    # by (platform, kind, whether the kind is known)
    unread: Counter[tuple[str, str, bool]] = field(default_factory=Counter)
    broken: int = 0
    # where the source breaks off, so that something is missing that is not counted
    breaks_off: list[str] = field(default_factory=list)

    def add(self, event: Event) -> None:
        """Add what an import yields."""
        match event:
            case Stored(chat=chat):
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
                self.broken += 1
                if breaks_off:
                    self.breaks_off.append(where)
            case Notice() | Times() | Ambiguous():
                pass
            case _:
                assert_never(event)


@dataclass(frozen=True, kw_only=True)
class StoredChat:
    """A chat as it is stored when an import is done."""

    time_zone: str
    language: str
    first_at: datetime | None
    last_at: datetime | None
    # the language of its words, where it is not the declared one
    looks: str | None


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
                looks=languages.looks_like(tally.chats[row.chat_id].texts, row.language)
                if compared
                else None,
            )
    return stored
