"""Match imported messages with stored ones, and correct times that the import reads differently now.

A derived id contains a message's local time, so another date order gives the message another id: one of its aliases. A
message stored under an alias is the same one, unless the source has another message with that id, which is known only
once the whole source has been read.

Moved messages leave their sessions, which are split again, and are placed as if they had just arrived. An emptied
session is merged into the one that has its first message now. The next run resumes an interrupted one: messages
already at their new time are not moved.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial

from sqlalchemy import Connection

from pipeline.ingest import place, session_ranges
from pipeline.ingest.sessionize import SessionPolicy
from pipeline.people import suppression
from pipeline.platforms import identity
from pipeline.platforms.identity import is_hash
from pipeline.platforms.records import Record
from pipeline.store.chats import chat_moves, chats
from pipeline.store.chats.chats import Chat
from pipeline.store.connections.database import Database
from pipeline.store.connections.transactions import batched, persistently
from pipeline.store.erasure import suppression as suppression_list
from pipeline.store.jobs import jobs
from pipeline.store.messages import edits, message_rows
from pipeline.store.messages.edits import StoredMessage
from schemas.masking import has_mask
from schemas.messages import MessageIn
from schemas.sessions import Session, is_named

MOVES_AT_ONCE = 250
"""Messages moved in one transaction: about 0.1 s, during which their chat accepts no others."""

QUARTER = timedelta(minutes=15)
"""Time zones and days differ by multiples of 15 minutes; any other difference has another cause."""


@dataclass(frozen=True, kw_only=True)
class Move:
    """A stored message, and its imported version."""

    id: int
    message: MessageIn


def is_misread(stored: datetime, read: datetime) -> bool:
    """Tell whether two times can be one local time read in two time zones or date orders."""
    return stored != read and (read - stored) % QUARTER == timedelta()


@dataclass(frozen=True, kw_only=True)
class SortedOut:
    """What to do with imported messages."""

    # the chat's present id
    chat_id: str
    # to accept: new ones, and those stored under their ids
    records: Sequence[Record]
    # of the latter, those stored at another time
    moves: Sequence[Move] = ()
    # possibly stored under an alias: for `find_renamed` at the end
    renamed: Sequence[Record] = ()
    # number deleted for good under an alias
    deleted: int = 0


def sort_out(database: Database, tenant_id: str, chat_id: str, records: Sequence[Record]) -> SortedOut:
    """Sort imported messages of one chat by what is stored under their ids and aliases."""
    compared = [record for record in records if record.by_clock or record.aliases]
    if not compared:
        return SortedOut(chat_id=chat_id, records=records)
    with database.tenant(tenant_id) as connection:
        stored = _Stored.of(connection, chat_id, compared)
        gone = stored.deleted(connection, [a for record in compared for a in record.aliases])
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
            if there and record.by_clock and is_misread(there.sent_at, record.message.sent_at):
                moves.append(stored.move(there, record))
    return SortedOut(chat_id=stored.chat_id, records=accepted, moves=moves, renamed=renamed, deleted=deleted)


def keyed(database: Database, tenant_id: str, records: Sequence[Record]) -> Sequence[Record]:
    """Give messages with something masked ids under the tenant's key, and their former ones as aliases.

    A derived id is a hash of the whole text, by which a card's number could be guessed from the rest.
    """
    if not any(_is_guessable(record) for record in records):
        return records
    with database.tenant(tenant_id) as connection:
        key = suppression_list.ensure_key(connection, tenant_id)
    return [_keyed(record, key) if _is_guessable(record) else record for record in records]


def _is_guessable(record: Record) -> bool:
    return is_hash(record.message.external_id) and has_mask(record.message.content)


def _keyed(record: Record, key: bytes) -> Record:
    external_id, *aliases = (identity.keyed(i, key) for i in (record.message.external_id, *record.aliases))
    return replace(
        record,
        message=record.message.model_copy(update={"external_id": external_id}),
        aliases=(*aliases, record.message.external_id, *record.aliases),
    )


def find_renamed(
    database: Database, tenant_id: str, chat_id: str, records: Sequence[Record], source_ids: Collection[str]
) -> SortedOut:
    """Tell messages stored under an alias from new ones; `source_ids` are the ids in the source."""
    with database.tenant(tenant_id) as connection:
        stored = _Stored.of(connection, chat_id, records)
    new, moves = [], []
    for record in records:
        alias = next((a for a in record.aliases if a in stored.known and a not in source_ids), None)
        if alias is None:
            new.append(record)
        else:
            moves.append(stored.move(stored.known.pop(alias), record))
    return SortedOut(chat_id=stored.chat_id, records=new, moves=moves)


@dataclass(frozen=True, kw_only=True)
class _Stored:
    """Stored messages, by their ids in the import."""

    sent_as: str
    # the chat's present id
    chat_id: str
    known: dict[str, StoredMessage]
    # ids and aliases as they are in the present chat
    present: Mapping[str, str]

    @classmethod
    def of(cls, connection: Connection, chat_id: str, records: Sequence[Record]) -> "_Stored":
        ids = [i for record in records for i in (record.message.external_id, *record.aliases)]
        chat = chats.get_current(connection, chat_id)
        into = chat.chat_id if chat else chat_id
        names = ids if into == chat_id else chat_moves.names(connection, chat_id, into, ids)
        there = edits.stored_messages(connection, into, names)
        return cls(
            sent_as=chat_id,
            chat_id=into,
            known={i: there[name] for i, name in zip(ids, names, strict=True) if name in there},
            present=dict(zip(ids, names, strict=True)),
        )

    def deleted(self, connection: Connection, ids: Sequence[str]) -> set[str]:
        """Return which of these ids were deleted, before or after their chat was moved."""
        gone = suppression.deleted(connection, self.chat_id, [self.present[i] for i in ids])
        before = suppression.deleted(connection, self.sent_as, ids) if self.sent_as != self.chat_id else set()
        return {i for i in ids if i in before or self.present[i] in gone}

    def move(self, there: StoredMessage, record: Record) -> Move:
        name = self.present[record.message.external_id]
        return Move(id=there.id, message=record.message.model_copy(update={"external_id": name}))


def move(
    database: Database,
    tenant_id: str,
    chat_id: str,
    moves: Sequence[Move],
    policy: SessionPolicy,
    *,
    settle: timedelta,
) -> int:
    """Move messages of one chat in slices, each in its own transaction; return how many still existed.

    Their sessions are summarized again after `settle`. Raises `Retryable`; the call may be repeated.
    """

    def move_some(batch: Sequence[Move]) -> int:
        with database.tenant(tenant_id) as connection:
            suppression_list.lock(connection, tenant_id, chat_id)
            chat = chats.lock_exclusively(connection, chat_id)
            held = edits.lock_messages(connection, chat_id, [move.id for move in batch]) if chat else []
            if chat is None or not held:
                return 0
            there = {message.id: message for message in held}
            present = [move for move in batch if move.id in there]
            placed = [message for message in held if message.placed]
            places = sorted({(message.session_key, message.sent_at) for message in placed})
            touched = edits.sessions_at(connection, chat_id, places)
            closes = [
                (there[move.id].session_key, there[move.id].sent_at)
                for move in present
                if move.message.closes_session and is_named(there[move.id].session_key)
            ]
            if closes:
                edits.drop_closes(connection, chat_id, closes)
            edits.redate(
                connection,
                chat_id,
                [(m.id, m.message.external_id, m.message.position, m.message.sent_at) for m in present],
            )
            _place(connection, tenant_id, chat, placed, touched, policy)
            chats.settle(connection, chat_id, settle)
            session_ranges.close_sessions(
                connection, tenant_id, chat_id, policy.for_chat(chat), priority=jobs.LATER
            )
        return len(present)

    return sum(persistently(partial(move_some, batch)) for batch in batched(moves, MOVES_AT_ONCE))


def _place(
    connection: Connection,
    tenant_id: str,
    chat: Chat,
    placed: Sequence[edits.LockedMessage],
    touched: Sequence[Session],
    policy: SessionPolicy,
) -> None:
    """Take messages out of their sessions, and place them where they belong now."""
    if not placed:
        return
    # while waiting, they do not count in the sessions that they leave
    ids = [message.id for message in placed]
    policy = policy.for_chat(chat)
    arrived = edits.arrive_anew(connection, tenant_id, chat.chat_id, ids)
    emptied = [
        session
        for session in touched
        if not session_ranges.split_unless_empty(connection, tenant_id, session, chat.language, policy)
    ]
    edits.set_aside(connection, [session.id for session in emptied])
    if policy.memory:
        place.update_sessions(connection, tenant_id, {chat.chat_id: chat}, arrived, policy)
    message_rows.forget_arrivals(connection, ids)
    now_at = {a.message_id: a.sent_at for a in arrived}
    into = _successors(connection, chat.chat_id, emptied, placed, now_at)
    session_ranges.merge_emptied(connection, tenant_id, into)
    for session in emptied:
        if session.id not in into:
            edits.drop_session(connection, tenant_id, session.id)


def _successors(
    connection: Connection,
    chat_id: str,
    emptied: Sequence[Session],
    placed: Sequence[edits.LockedMessage],
    now_at: Mapping[int, datetime],
) -> dict[int, int]:
    """Map emptied sessions to those that have their first message now, if any."""
    places: dict[int, tuple[str, datetime]] = {}
    for session in emptied:
        mine = [m for m in placed if _holds(session, m.session_key, m.sent_at)]
        if mine:
            first = min(mine, key=lambda message: message.sent_at)
            places[session.id] = session.session_key, now_at[first.id]
    homes = edits.sessions_at(connection, chat_id, sorted(set(places.values())))
    return {
        session_id: home.id
        for session_id, (key, at) in places.items()
        for home in homes
        if _holds(home, key, at)
    }


def _holds(session: Session, session_key: str, at: datetime) -> bool:
    return session.session_key == session_key and session.started_at <= at <= session.ended_at
