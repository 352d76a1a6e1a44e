"""Import a history: accept parsed messages in batches, chat by chat, and count them.

Running it again is safe, also with a longer export: messages already stored under their ids are left alone, or moved if
their local time is read differently now. Accepted messages stay, whatever happens to the rest.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from heapq import nlargest
from typing import assert_never

from pipeline.ingest import languages, reimport
from pipeline.ingest.accept import UNLIMITED, Accepted, MessageLimits, accept, reason_of
from pipeline.ingest.reimport import SortedOut
from pipeline.ingest.sessionize import SessionPolicy
from pipeline.platforms.identity import PREFIX
from pipeline.platforms.records import (
    Ambiguous,
    Broken,
    Carried,
    Notice,
    Parsed,
    Record,
    Skipped,
    Times,
    Unread,
)
from pipeline.store.chats import chat_languages, chats
from pipeline.store.chats.chat_languages import DECLARED
from pipeline.store.connections.database import Database
from pipeline.store.messages import accepting
from pipeline.store.operations import stats
from schemas.bots import Reason
from schemas.languages import AUTO
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
        if isinstance(event, Skipped | Unread | Broken):
            self.left_out[reason_of(event)] += 1
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


MESSAGES_AT_ONCE = 500
"""Messages of one chat in one batch: about 0.1 s, during which placing in the chat waits."""

MAX_HELD_MESSAGES = 10 * MESSAGES_AT_ONCE
"""Most messages held back while a file interleaves many chats."""

SAMPLE_TEXTS = 200
"""Texts of a chat used to guess its language."""


def store(
    database: Database,
    tenant_id: str,
    parsed: Iterable[Parsed],
    policy: SessionPolicy,
    *,
    settle: timedelta,
    limits: MessageLimits = UNLIMITED,
) -> Iterator[Event]:
    """Accept parsed messages; yield each accepted batch, and every item that is not a message.

    The caller must wake up the `ingest` workers after a `Stored` with new messages, and the `summarize` workers after
    one with moved messages. `policy` splits sessions again that lose messages. Summaries wait for `settle` after a
    chat's last message. Messages that `limits` have pruned are not stored again. Raises what `parsed` raises, and
    `DatabaseUnavailable`; yielded batches stay stored.
    """
    importing = _Import(database=database, tenant_id=tenant_id, policy=policy, settle=settle, limits=limits)
    chats_of: dict[str, _Chat] = {}
    held = 0
    for item in parsed:
        match item:
            case ChatIn():
                chats_of.setdefault(item.chat_id, _Chat(chat=item)).learn(item)
            case Record(chat_id=chat_id):
                chat = chats_of[chat_id]
                chat.records.append(item)
                held += 1
                if len(chat.records) >= MESSAGES_AT_ONCE or held >= MAX_HELD_MESSAGES:
                    longest = max(chats_of.values(), key=lambda c: len(c.records))
                    held -= len(longest.records)
                    yield importing.flush(longest)
            case Skipped() | Unread() | Broken() | Notice() | Times() | Ambiguous():
                yield item
            case Carried():
                yield Broken(where=item.where, reason="rows of another Backscroll are not read here")
            case _:
                assert_never(item)
    for chat in chats_of.values():
        # a chat without a single message is not created
        if chat.records or (chat.stored and chat.changed):
            yield importing.flush(chat)
        while chat.renamed:
            yield importing.flush_renamed(chat)
        if chat.stored and chat.chat.language not in (None, AUTO):
            yield from importing.relabel(chat.chat.chat_id, str(chat.chat.language))


@dataclass(kw_only=True)
class _Chat:
    """A chat of the source, with its messages that are not yet accepted."""

    chat: ChatIn
    records: list[Record] = field(default_factory=list)
    # records that may be stored under another id, and the ids in the source: see `reimport`
    renamed: list[Record] = field(default_factory=list)
    names: set[str] = field(default_factory=set)
    # whether its row exists, and whether that row is out of date
    stored: bool = False
    changed: bool = True
    # first and last time of messages with ids of the other kind: see `ChatTally.overlapping`
    other_times: tuple[datetime, datetime] | None = None
    # texts still to be sampled
    texts_left: int = SAMPLE_TEXTS

    def learn(self, chat: ChatIn) -> None:
        """Update the chat's description."""
        known = self.chat.model_copy(update=chat.model_dump(exclude_defaults=True))
        self.changed = self.changed or known != self.chat
        self.chat = known

    def sample_texts(self, records: Sequence[Record]) -> list[str]:
        """Return a sample of these messages' texts, until the chat's quota is used up."""
        texts = [record.message.content[: languages.SAMPLE_CHARS] for record in records[: self.texts_left]]
        self.texts_left -= len(texts)
        return texts


@dataclass(frozen=True, kw_only=True)
class _Import:
    """The target and the options of an import."""

    database: Database
    tenant_id: str
    policy: SessionPolicy
    settle: timedelta
    limits: MessageLimits

    def flush(self, held: _Chat) -> Stored:
        """Accept a chat's held batch, and move messages that are stored at another time."""
        records, held.records = reimport.keyed(self.database, self.tenant_id, held.records), []
        if not held.stored and records:
            derived = records[0].message.external_id.startswith(PREFIX)
            with self.database.tenant(self.tenant_id) as connection:
                held.other_times = stats.times_of_others(
                    connection, held.chat.chat_id, PREFIX, with_prefix=not derived
                )
        held.names.update(record.message.external_id for record in records if record.aliases)
        result = reimport.sort_out(self.database, self.tenant_id, held.chat.chat_id, records)
        held.renamed += result.renamed
        stored = self._store(held, result)
        times = [record.message.sent_at for record in records]
        first, last = held.other_times or (None, None)
        overlapping = sum(first <= time <= last for time in times) if first and last else 0
        latest = datetime.now(UTC) + accepting.AHEAD
        ahead = sum(time > latest for time in times)
        return replace(stored, overlapping=overlapping, ahead=ahead, texts=held.sample_texts(records))

    def flush_renamed(self, held: _Chat) -> Stored:
        """Move messages stored under another id, at the end of the source; accept those that are new after all."""
        records, held.renamed = held.renamed[:MESSAGES_AT_ONCE], held.renamed[MESSAGES_AT_ONCE:]
        result = reimport.find_renamed(self.database, self.tenant_id, held.chat.chat_id, records, held.names)
        stored = self._store(held, result)
        # moved messages were not accepted
        return replace(stored, duplicates=stored.duplicates + stored.moved)

    def _store(self, held: _Chat, result: SortedOut) -> Stored:
        messages = [record.message for record in result.records]
        accepted = Accepted(new=0, duplicates=0)
        if messages:
            accepted = accept(
                self.database, self.tenant_id, held.chat, messages, settle=self.settle, limits=self.limits
            )
        with self.database.tenant(self.tenant_id) as connection:
            there = chats.get_current(connection, held.chat.chat_id)
            # None if every message was kept out
            if there is not None:
                moved_to = {"chat_id": there.chat_id, "platform": ""}
                renamed = there.chat_id != held.chat.chat_id
                chat = held.chat.model_copy(update=moved_to) if renamed else held.chat
                chats.ensure(connection, self.tenant_id, chat)
        moved = reimport.move(
            self.database, self.tenant_id, result.chat_id, result.moves, self.policy, settle=self.settle
        )
        held.stored, held.changed = True, False
        return Stored(
            chat=held.chat,
            new=accepted.new,
            duplicates=accepted.duplicates - moved,
            moved=moved,
            kept_out=accepted.kept_out + result.deleted,
            cut=accepted.cut,
        )

    def relabel(self, chat_id: str, language: str) -> Iterator[Notice]:
        """Rebuild a chat's keyword vectors that are in another language."""
        with self.database.tenant(self.tenant_id) as connection:
            there = chats.get_current(connection, chat_id)
            chat_id = there.chat_id if there else chat_id
            mixed = chat_languages.words_after(connection, chat_id) is not None
        if mixed and (
            changed := languages.change(self.database, self.tenant_id, chat_id, language, self.policy)
        ):
            yield Notice(
                text=f"{changed:,} messages of {chat_id} that were there are searched as {language} now."
            )
