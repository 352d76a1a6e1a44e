"""Sort out messages that an import brings again: which are moved, and which have another id by now.

A derived id holds a message's local time, so that read in another date order the message has another id: one of its
aliases. A stored message of such an id is the same one, unless the source has another message of that id, which is
known when the source has been read whole.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection

from pipeline.ingest import redate
from pipeline.ingest.redate import Move
from pipeline.people import suppression
from pipeline.platforms.records import Record
from pipeline.store import chat_moves, chats
from pipeline.store import redate as store
from pipeline.store.database import Database
from pipeline.store.redate import Known


@dataclass(frozen=True, kw_only=True)
class SortedOut:
    """What to do with messages that an import brings."""

    # the chat's present id
    chat_id: str
    # to be accepted: new ones, and those that are there by their ids
    records: Sequence[Record]
    # of the latter, what is there at another time
    moves: Sequence[Move] = ()
    # seem to be there by an alias: for `find_renamed` at the end
    renamed: Sequence[Record] = ()
    # how many were deleted for good, by an alias
    deleted: int = 0


def sort_out(database: Database, tenant_id: str, chat_id: str, records: Sequence[Record]) -> SortedOut:
    """Look for messages of one chat by their ids and aliases."""
    by_clock = [record for record in records if record.by_clock]
    if not by_clock:
        return SortedOut(chat_id=chat_id, records=records)
    with database.tenant(tenant_id) as connection:
        stored = _Stored.of(connection, chat_id, by_clock)
        gone = stored.deleted(connection, [a for record in by_clock for a in record.aliases])
    accepted: list[Record] = []
    moves: list[Move] = []
    renamed: list[Record] = []
    deleted = 0
    for record in records:
        there = stored.known.get(record.message.external_id)
        if there is None and not stored.known.keys().isdisjoint(record.aliases):
            renamed.append(record)
        elif there is None and not gone.isdisjoint(record.aliases):
            deleted += 1
        else:
            accepted.append(record)
            if there and record.by_clock and redate.is_misread(there.sent_at, record.message.sent_at):
                moves.append(stored.move(there, record))
    return SortedOut(chat_id=stored.chat_id, records=accepted, moves=moves, renamed=renamed, deleted=deleted)


def find_renamed(
    database: Database, tenant_id: str, chat_id: str, records: Sequence[Record], names: Collection[str]
) -> SortedOut:
    """Tell messages stored under an alias from new ones; `names` are the ids that the source itself has."""
    with database.tenant(tenant_id) as connection:
        stored = _Stored.of(connection, chat_id, records)
    new, moves = [], []
    for record in records:
        alias = next((a for a in record.aliases if a in stored.known and a not in names), None)
        if alias is None:
            new.append(record)
        else:
            moves.append(stored.move(stored.known.pop(alias), record))
    return SortedOut(chat_id=stored.chat_id, records=new, moves=moves)


@dataclass(frozen=True, kw_only=True)
class _Stored:
    """Stored messages, by the ids that an import knows them by."""

    given: str
    # the chat's present id
    chat_id: str
    known: dict[str, Known]
    # ids and aliases as they are in the present chat
    present: Mapping[str, str]

    @classmethod
    def of(cls, connection: Connection, chat_id: str, records: Sequence[Record]) -> "_Stored":
        ids = [each for record in records for each in (record.message.external_id, *record.aliases)]
        chat = chats.followed(connection, chat_id)
        into = chat.chat_id if chat else chat_id
        names = ids if into == chat_id else chat_moves.names(connection, chat_id, into, ids)
        there = store.known(connection, into, names)
        return cls(
            given=chat_id,
            chat_id=into,
            known={each: there[name] for each, name in zip(ids, names, strict=True) if name in there},
            present=dict(zip(ids, names, strict=True)),
        )

    def deleted(self, connection: Connection, ids: Sequence[str]) -> set[str]:
        """Return which of these ids were deleted, before or after they came where they are."""
        gone = suppression.deleted(connection, self.chat_id, [self.present[each] for each in ids])
        before = suppression.deleted(connection, self.given, ids) if self.given != self.chat_id else set()
        return {each for each in ids if each in before or self.present[each] in gone}

    def move(self, there: Known, record: Record) -> Move:
        name = self.present[record.message.external_id]
        return Move(id=there.id, message=record.message.model_copy(update={"external_id": name}))
