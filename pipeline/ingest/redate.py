"""Correct the times of stored messages, when a later import reads their clock or date order otherwise.

Moved messages leave their sessions, which are cut again from what is left, and are placed as if they came now. A
session that all left leads to the one that has its first message, and so do its memories. A run that is broken off goes
on with the next: what has its time already is not moved.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial

from sqlalchemy import Connection

from pipeline.ingest import place, session_ranges
from pipeline.ingest.policy import Rules
from pipeline.store import chats, edits, jobs, messages
from pipeline.store import edits as store
from pipeline.store import suppression as suppression_list
from pipeline.store.chats import Chat
from pipeline.store.database import Database, persistently
from schemas.messages import MessageIn
from schemas.sessions import Session, is_named

AT_ONCE = 250
"""Messages moved in one transaction: some 0.1 s, in which their chat takes no others."""

QUARTER = timedelta(minutes=15)
"""Clocks of two zones, and days, are quarters of an hour apart. Any other difference has another reason."""


@dataclass(frozen=True, kw_only=True)
class Move:
    """A stored message, and what the import says of it now."""

    id: int
    message: MessageIn


def is_misread(stored: datetime, read: datetime) -> bool:
    """Tell whether two times can be one time read by two clocks or date orders."""
    return stored != read and (read - stored) % QUARTER == timedelta()


def move(
    database: Database,
    tenant_id: str,
    chat_id: str,
    moves: Sequence[Move],
    rules: Rules,
    *,
    settle: timedelta,
) -> int:
    """Move messages of one chat, in slices of a transaction each; returns how many were there to be moved.

    Summaries are owed then, which wait for so long as `settle` says. Raises `Retryable`; the same call may be made
    again.
    """
    return sum(
        persistently(partial(_move, database, tenant_id, chat_id, some, rules, settle))
        for some in _slices(moves)
    )


def _slices(moves: Sequence[Move]) -> Iterator[Sequence[Move]]:
    for start in range(0, len(moves), AT_ONCE):
        yield moves[start : start + AT_ONCE]


def _move(
    database: Database,
    tenant_id: str,
    chat_id: str,
    moves: Sequence[Move],
    rules: Rules,
    settle: timedelta,
) -> int:
    with database.tenant(tenant_id) as connection:
        suppression_list.lock(connection, tenant_id, chat_id)
        chat = chats.lock_alone(connection, chat_id)
        held = store.lock_messages(connection, chat_id, [move.id for move in moves]) if chat else []
        if chat is None or not held:
            return 0
        there = {message.id: message for message in held}
        moves = [move for move in moves if move.id in there]
        placed = [message for message in held if message.placed]
        touched = edits.sessions_at(
            connection, chat_id, sorted({(message.session_key, message.sent_at) for message in placed})
        )
        _take_back_closes(connection, chat_id, moves, there)
        store.redate(
            connection,
            chat_id,
            [(m.id, m.message.external_id, m.message.position, m.message.sent_at) for m in moves],
        )
        _place(connection, tenant_id, chat, placed, touched, rules)
        chats.settle(connection, chat_id, settle)
        session_ranges.close_sessions(
            connection, tenant_id, chat_id, rules.for_chat(chat), priority=jobs.LATER
        )
    return len(moves)


def _place(
    connection: Connection,
    tenant_id: str,
    chat: Chat,
    placed: Sequence[store.LockedMessage],
    touched: Sequence[Session],
    rules: Rules,
) -> None:
    """Take messages out of their sessions, and place them where they belong now."""
    if not placed:
        return
    # as long as they wait nobody takes them for messages of the sessions that they leave
    arrived = store.arrive_anew(connection, tenant_id, chat.chat_id, [message.id for message in placed])
    emptied = [
        session
        for session in touched
        if not session_ranges.split_what_is_left(connection, tenant_id, session, chat.language, rules)
    ]
    store.set_aside(connection, [session.id for session in emptied])
    if rules.for_chat(chat).memory:
        place.put(connection, tenant_id, {chat.chat_id: chat}, arrived, rules)
    messages.forget_arrivals(connection, [message.id for message in placed])
    into = _homes(
        connection, chat.chat_id, emptied, placed, {each.message_id: each.sent_at for each in arrived}
    )
    session_ranges.lead_on(connection, tenant_id, into)
    for session in emptied:
        if session.id not in into:
            edits.drop_session(connection, tenant_id, session.id)


def _homes(
    connection: Connection,
    chat_id: str,
    emptied: Sequence[Session],
    placed: Sequence[store.LockedMessage],
    now_at: Mapping[int, datetime],
) -> dict[int, int]:
    """Map emptied sessions to those that have their first message now, if any."""
    places: dict[int, tuple[str, datetime]] = {}
    for session in emptied:
        mine = [
            message
            for message in placed
            if message.session_key == session.session_key
            and session.started_at <= message.sent_at <= session.ended_at
        ]
        if mine:
            first = min(mine, key=lambda message: message.sent_at)
            places[session.id] = session.session_key, now_at[first.id]
    homes = edits.sessions_at(connection, chat_id, sorted(set(places.values())))
    return {
        session_id: home.id
        for session_id, (key, at) in places.items()
        for home in homes
        if home.session_key == key and home.started_at <= at <= home.ended_at
    }


def _take_back_closes(
    connection: Connection, chat_id: str, moves: Sequence[Move], there: dict[int, store.LockedMessage]
) -> None:
    closes = [
        (there[move.id].session_key, there[move.id].sent_at)
        for move in moves
        if move.message.closes_session and is_named(there[move.id].session_key)
    ]
    if closes:
        store.drop_closes(connection, chat_id, closes)
