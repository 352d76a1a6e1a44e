"""Import a history: what a parser yields goes through `accept` in batches, chat by chat.

Safe to run twice and with a longer export of the same chat: what is there by its id is left alone, unless its time
was read off a clock and is read otherwise now; then it is moved. What has been accepted stays, whatever happens to the
rest.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from heapq import nlargest

import structlog

from pipeline.ingest import languages, redate, reimport
from pipeline.ingest.accept import Accepted, accept
from pipeline.ingest.policy import Rules
from pipeline.ingest.reimport import SortedOut
from pipeline.platforms.identity import PREFIX
from pipeline.platforms.records import Ambiguous, Broken, Notice, Parsed, Record, Skipped, Times
from pipeline.store import accepting, chats, stats
from pipeline.store import keyword_search as store_languages
from pipeline.store.chats import Chat
from pipeline.store.database import Database
from schemas.messages import ChatIn

log = structlog.get_logger(__name__)

BATCH = 500
"""Messages of one chat in one transaction: some 0.1 s, during which the chat's placing waits."""

HELD = 10 * BATCH
"""Messages kept back at most, in a file that has many chats in turns."""

WORDS = 5_000
"""Words of a chat that are looked at to tell its language."""

LANGUAGES_TOLD = 50
"""Chats of an import, those with the most words, whose language is looked at."""


@dataclass(frozen=True, kw_only=True)
class Stored:
    """An accepted batch of one chat."""

    chat: ChatIn
    new: int
    # already there by their id, and left where they are
    duplicates: int
    # there, and put to the time that is read now
    moved: int
    # forgotten, or of somebody who is not to be remembered
    kept_out: int
    # of the batch: their times lie where the chat also has messages that came another way (see `Tally`)
    overlapping: int = 0
    # of the batch: their times lie in the future, so they count as sent when they came
    ahead: int = 0
    # some of the words in it
    words: Counter[str] = field(default_factory=Counter)


Event = Stored | Skipped | Broken | Notice | Times | Ambiguous
"""What `store` tells of, in the order of the source."""


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
    # meet, so one utterance that came both ways is stored twice.
    overlapping: int = 0
    words: Counter[str] = field(default_factory=Counter)


@dataclass(kw_only=True)
class Tally:
    """What an import did so far."""

    chats: dict[str, ChatTally] = field(default_factory=dict)
    # by reason
    skipped: Counter[str] = field(default_factory=Counter)
    broken: int = 0
    # where the source breaks off, so that something is missing that is not counted
    breaks_off: list[str] = field(default_factory=list)

    @property
    def new(self) -> int:
        """Count the messages stored now."""
        return sum(chat.new for chat in self.chats.values())

    @property
    def duplicates(self) -> int:
        """Count the messages that were there already."""
        return sum(chat.duplicates for chat in self.chats.values())

    @property
    def moved(self) -> int:
        """Count the messages that were there at another time."""
        return sum(chat.moved for chat in self.chats.values())

    @property
    def kept_out(self) -> int:
        """Count the messages that were forgotten, or whose senders are not to be remembered."""
        return sum(chat.kept_out for chat in self.chats.values())

    def add(self, event: Event) -> None:
        """Add what `store` yields."""
        match event:
            case Stored(chat=chat):
                counted = self.chats.setdefault(chat.chat_id, ChatTally(chat_id=chat.chat_id))
                counted.title = chat.title or counted.title
                counted.new += event.new
                counted.duplicates += event.duplicates
                counted.moved += event.moved
                counted.kept_out += event.kept_out
                if event.new:
                    counted.overlapping += min(event.new, event.overlapping)
                counted.words += event.words
            case Skipped(reason=reason):
                self.skipped[reason] += 1
            case Broken(where=where, breaks_off=breaks_off):
                self.broken += 1
                if breaks_off:
                    self.breaks_off.append(where)
            case Notice() | Times() | Ambiguous():
                pass


def store(
    database: Database,
    tenant_id: str,
    parsed: Iterable[Parsed],
    rules: Rules,
    *,
    settle: timedelta,
) -> Iterator[Event]:
    """Accept the messages that a parser yields; yields each accepted batch, and what was no message.

    After a `Stored` with anything new the workers of `ingest` should be hinted, after one with anything moved those of
    `summarize`. `rules` say how sessions are
    cut that messages are moved out of. `settle` is how long after its last message a chat's sessions wait for their
    summaries. Raises what `parsed` raises, and `DatabaseUnavailable`; what was yielded as `Stored` by then stays.
    """
    flush = partial(_flush, database, tenant_id, rules, settle)
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
                if len(chat.records) >= BATCH or held >= HELD:
                    longest = max(chats_of.values(), key=lambda c: len(c.records))
                    held -= len(longest.records)
                    yield flush(longest)
            case _:
                yield item
    for chat in chats_of.values():
        # a chat without a single message is not made
        if chat.records or (chat.stored and chat.changed):
            yield flush(chat)
        while chat.renamed:
            yield _flush_renamed(database, tenant_id, rules, settle, chat)
        if chat.stored and chat.chat.language:
            yield from _in_one_language(database, tenant_id, chat.chat.chat_id, chat.chat.language)


@dataclass(kw_only=True)
class _Chat:
    """A chat of the source, with its messages that are not yet accepted."""

    chat: ChatIn
    records: list[Record] = field(default_factory=list)
    # those that seem to be there by another id, and the ids that the source has itself: see `reimporting`
    renamed: list[Record] = field(default_factory=list)
    names: set[str] = field(default_factory=set)
    # whether there is a row of it, and whether that row says less than is known now
    stored: bool = False
    changed: bool = True
    # the times of messages with ids of the other kind, see `ChatTally.overlapping`
    others: tuple[datetime, datetime] | None = None
    # how many words of it are still looked at
    words_left: int = WORDS

    def learn(self, chat: ChatIn) -> None:
        """Update the chat's description."""
        known = self.chat.model_copy(update=chat.model_dump(exclude_defaults=True))
        self.changed = self.changed or known != self.chat
        self.chat = known

    def some_words(self, records: Iterable[Record]) -> Counter[str]:
        """Return words of these messages, unless there have been enough of the chat."""
        words: Counter[str] = Counter()
        for record in records:
            if self.words_left <= 0:
                break
            said = _WORD.findall(record.message.content.lower())
            self.words_left -= len(said)
            words.update(said)
        return words


def _flush(database: Database, tenant_id: str, rules: Rules, settle: timedelta, held: _Chat) -> Stored:
    """Accept a chat's batch, and move what is there at another time."""
    records, held.records = held.records, []
    if not held.stored and records:
        derived = records[0].message.external_id.startswith(PREFIX)
        with database.tenant(tenant_id) as connection:
            held.others = stats.times_of_others(
                connection, held.chat.chat_id, PREFIX, with_prefix=not derived
            )
    held.names.update(record.message.external_id for record in records if record.aliases)
    found = reimport.sort_out(database, tenant_id, held.chat.chat_id, records)
    held.renamed += found.renamed
    stored = _store(database, tenant_id, rules, settle, held, found)
    times = [record.message.sent_at for record in records]
    first, last = held.others or (None, None)
    overlapping = sum(first <= time <= last for time in times) if first and last else 0
    latest = datetime.now(UTC) + accepting.AHEAD
    ahead = sum(time > latest for time in times)
    return replace(stored, overlapping=overlapping, ahead=ahead, words=held.some_words(records))


def _flush_renamed(
    database: Database, tenant_id: str, rules: Rules, settle: timedelta, held: _Chat
) -> Stored:
    """Move what is there by another id, at the end of the source; accept what turned out to be new."""
    records, held.renamed = held.renamed[:BATCH], held.renamed[BATCH:]
    found = reimport.find_renamed(database, tenant_id, held.chat.chat_id, records, held.names)
    stored = _store(database, tenant_id, rules, settle, held, found)
    # what was moved was not accepted
    return replace(stored, duplicates=stored.duplicates + stored.moved)


def _store(
    database: Database, tenant_id: str, rules: Rules, settle: timedelta, held: _Chat, found: SortedOut
) -> Stored:
    messages = [record.message for record in found.records]
    accepted = Accepted(new=0, duplicates=0)
    if messages:
        accepted = accept(database, tenant_id, held.chat, messages, settle=settle)
    with database.tenant(tenant_id) as connection:
        there = chats.followed(connection, held.chat.chat_id)
        # none when all of it was kept out
        if there is not None:
            chats.ensure(connection, tenant_id, _said_of(there, held.chat))
    moved = redate.move(database, tenant_id, found.chat_id, found.moves, rules, settle=settle)
    held.stored, held.changed = True, False
    return Stored(
        chat=held.chat,
        new=accepted.new,
        duplicates=accepted.duplicates - moved,
        moved=moved,
        kept_out=accepted.kept_out + found.deleted,
    )


def _said_of(there: Chat, chat: ChatIn) -> ChatIn:
    """Return the chat's description under its present id; with another one its platform may be another, too."""
    if there.chat_id == chat.chat_id:
        return chat
    return chat.model_copy(update={"chat_id": there.chat_id, "platform": ""})


def _in_one_language(database: Database, tenant_id: str, chat_id: str, language: str) -> Iterator[Notice]:
    """Make the keyword vectors anew that are in another language."""
    with database.tenant(tenant_id) as connection:
        there = chats.followed(connection, chat_id)
        chat_id = there.chat_id if there else chat_id
        mixed = store_languages.is_mixed(connection, chat_id)
    if mixed and (changed := languages.change(database, tenant_id, chat_id, language)):
        yield Notice(
            text=f"{changed:,} messages of {chat_id} that were there are searched as {language} now."
        )


_WORD = re.compile(r"[^\W\d_]+")


@dataclass(frozen=True, kw_only=True)
class Now:
    """A chat as it is stored when an import is done."""

    time_zone: str
    language: str
    first_at: datetime | None
    last_at: datetime | None
    # the language of its words, where it is not the declared one
    looks: str | None


def now(database: Database, tenant_id: str, tally: Tally) -> dict[str, Now]:
    """Return the chats of an import by their ids, with the time range of all their messages."""
    found = {}
    largest = nlargest(LANGUAGES_TOLD, tally.chats.values(), key=lambda chat: chat.words.total())
    looked_at = {chat.chat_id for chat in largest}
    with database.tenant(tenant_id) as connection:
        for row in stats.times(connection, list(tally.chats)):
            chat = tally.chats[row.chat_id]
            counts = store_languages.stop_words(connection, chat.words) if row.chat_id in looked_at else {}
            found[row.chat_id] = Now(
                time_zone=row.time_zone,
                language=row.language,
                first_at=row.first_at,
                last_at=row.last_at,
                looks=languages.looks_like(counts, chat.words.total(), row.language),
            )
    return found
