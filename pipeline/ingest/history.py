"""Import a history: what a parser yields goes through `accept` in batches, chat by chat.

Safe to run twice and with a longer export of the same chat: what is there by its id is left alone, unless its time
was read off a clock and is read otherwise now; then it is moved. What has been accepted stays, whatever happens to the
rest.
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
from pipeline.platforms.identity import PREFIX, without_chat
from pipeline.platforms.records import Ambiguous, Broken, Notice, Parsed, Record, Skipped, Times, Unread
from pipeline.store.chats import chat_languages, chats, membership
from pipeline.store.connections.database import Database
from pipeline.store.messages import accepting
from pipeline.store.operations import stats
from schemas.languages import AUTO
from schemas.messages import ChatIn, MessageIn

BATCH = 500
"""Messages of one chat in one transaction: some 0.1 s, during which the chat's placing waits."""

HELD = 10 * BATCH
"""Messages kept back at most, in a file that has many chats in turns."""

TEXTS = 200
"""Texts of a chat by which its language is guessed."""


def store(
    database: Database,
    tenant_id: str,
    parsed: Iterable[Parsed],
    policy: SessionPolicy,
    *,
    settle: timedelta,
    limits: MessageLimits = UNLIMITED,
) -> Iterator[Event]:
    """Accept the messages that a parser yields; yield each accepted batch, and what was no message.

    After a `Stored` with anything new wake up the workers of `ingest`, after one with anything moved those of
    `summarize`. `policy` says how sessions are split that messages are moved out of. `settle` is how long after its
    last message a chat's sessions wait for their summaries. What was pruned by these `limits` is not stored again.
    Raises what `parsed` raises, and `DatabaseUnavailable`; what was yielded as `Stored` by then stays.
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
                if len(chat.records) >= BATCH or held >= HELD:
                    longest = max(chats_of.values(), key=lambda c: len(c.records))
                    held -= len(longest.records)
                    yield importing.flush(longest)
            case Skipped() | Unread() | Broken() | Notice() | Times() | Ambiguous():
                yield item
            case _:
                assert_never(item)
    for chat in chats_of.values():
        # a chat without a single message is not made
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
    # those that seem to be there by another id, and the ids that the source has itself: see `reimport`
    renamed: list[Record] = field(default_factory=list)
    names: set[str] = field(default_factory=set)
    # whether there is a row of it, and whether that row says less than is known now
    stored: bool = False
    changed: bool = True
    # the times of messages with ids of the other kind, see `ChatTally.overlapping`
    other_times: tuple[datetime, datetime] | None = None
    # how many texts of it are still looked at
    texts_left: int = TEXTS

    def learn(self, chat: ChatIn) -> None:
        """Update the chat's description."""
        known = self.chat.model_copy(update=chat.model_dump(exclude_defaults=True))
        self.changed = self.changed or known != self.chat
        self.chat = known

    def some_texts(self, records: Sequence[Record]) -> list[str]:
        """Return texts of these messages, unless there have been enough of the chat."""
        texts = [record.message.content[: languages.SAMPLE_CHARS] for record in records[: self.texts_left]]
        self.texts_left -= len(texts)
        return texts


@dataclass(frozen=True, kw_only=True)
class _Import:
    """Where and how an import stores."""

    database: Database
    tenant_id: str
    policy: SessionPolicy
    settle: timedelta
    limits: MessageLimits

    def flush(self, held: _Chat) -> Stored:
        """Accept a chat's batch, and move what is there at another time."""
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
        return replace(stored, overlapping=overlapping, ahead=ahead, texts=held.some_texts(records))

    def flush_renamed(self, held: _Chat) -> Stored:
        """Move what is there by another id, at the end of the source; accept what turned out to be new."""
        records, held.renamed = held.renamed[:BATCH], held.renamed[BATCH:]
        result = reimport.find_renamed(self.database, self.tenant_id, held.chat.chat_id, records, held.names)
        stored = self._store(held, result)
        # what was moved was not accepted
        return replace(stored, duplicates=stored.duplicates + stored.moved)

    def _store(self, held: _Chat, result: SortedOut) -> Stored:
        messages = self._as_known(result.chat_id, [record.message for record in result.records])
        accepted = Accepted(new=0, duplicates=0)
        if messages:
            accepted = accept(
                self.database, self.tenant_id, held.chat, messages, settle=self.settle, limits=self.limits
            )
        with self.database.tenant(self.tenant_id) as connection:
            there = chats.get_current(connection, held.chat.chat_id)
            # none when all of it was kept out
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
        )

    def _as_known(self, chat_id: str, messages: Sequence[MessageIn]) -> list[MessageIn]:
        """Return messages with the sender ids that the chat has: names that are not told apart yet keep the old one."""
        before = {m.sender_id: name for m in messages if (name := without_chat(m.sender_id)) is not None}
        if not before:
            return list(messages)
        with self.database.tenant(self.tenant_id) as connection:
            known = membership.among(connection, chat_id, list(before.values()))
        return [
            m.model_copy(update={"sender_id": before[m.sender_id]}) if before.get(m.sender_id) in known else m
            for m in messages
        ]

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
