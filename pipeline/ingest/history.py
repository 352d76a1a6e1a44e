"""Import a history: accept parsed messages in batches, chat by chat.

Running it again is safe, also with a longer export: messages already stored under their ids are left alone, or moved if
their local time is read differently now. Accepted messages stay, whatever happens to the rest.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import assert_never

from pipeline.ingest import languages, reimport
from pipeline.ingest.accept import Accepted, accept
from pipeline.ingest.import_tally import Event, Stored
from pipeline.ingest.policy import SessionPolicy
from pipeline.ingest.pruned import UNLIMITED, MessageLimits
from pipeline.ingest.reimport import SortedOut
from pipeline.platforms.identity import PREFIX
from pipeline.platforms.records import Ambiguous, Broken, Notice, Parsed, Record, Skipped, Times, Unread
from pipeline.store.chats import chat_languages, chats
from pipeline.store.connections.database import Database
from pipeline.store.messages import accepting
from pipeline.store.operations import stats
from schemas.languages import AUTO
from schemas.messages import ChatIn

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
        records, held.records = held.records, []
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
