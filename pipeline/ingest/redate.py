"""Correct the times of stored messages, when a later import reads their clock or date order otherwise.

Moved messages leave their sessions, which are split again, and are placed as if they came now. An emptied session
leads to the one that has its first message, and so do its memories. A run that is broken off goes on with the next:
what has its time already is not moved.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial

from sqlalchemy import Connection

from pipeline.ingest import place, session_ranges
from pipeline.ingest.policy import SessionPolicy
from pipeline.jobs.batches import batched
from pipeline.store import chats, edits, jobs, messages, suppression
from pipeline.store import redate as store
from pipeline.store.chats import Chat
from pipeline.store.database import Database
from pipeline.store.retry import persistently
from schemas.messages import MessageIn
from schemas.sessions import Session, is_named

MOVES_AT_ONCE = 250
"""Messages moved in one transaction: some 0.1 s, in which their chat takes no others."""

QUARTER = timedelta(minutes=15)
"""Clocks of two zones, and days, differ by quarters of an hour; any other difference has another reason."""


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
    policy: SessionPolicy,
    *,
    settle: timedelta,
) -> int:
    """Move messages of one chat, in slices of a transaction each, and count those that were there.

    Their sessions are summarized again after `settle`. Raises `Retryable`; the same call may be made again.
    """
    return sum(
        persistently(partial(_move, database, tenant_id, chat_id, some, policy, settle))
        for some in batched(moves, MOVES_AT_ONCE)
    )


def _move(
    database: Database,
    tenant_id: str,
    chat_id: str,
    moves: Sequence[Move],
    policy: SessionPolicy,
    settle: timedelta,
) -> int:
    with database.tenant(tenant_id) as connection:
        suppression.lock(connection, tenant_id, chat_id)
        chat = chats.lock_alone(connection, chat_id)
        held = store.hold(connection, chat_id, [move.id for move in moves]) if chat else []
        if chat is None or not held:
            return 0
        there = {message.id: message for message in held}
        moves = [move for move in moves if move.id in there]
        placed = [message for message in held if message.placed]
        places = sorted({(message.session_key, message.sent_at) for message in placed})
        touched = edits.sessions_at(connection, chat_id, places)
        closes = [
            (there[move.id].session_key, there[move.id].sent_at)
            for move in moves
            if move.message.closes_session and is_named(there[move.id].session_key)
        ]
        if closes:
            store.drop_closes(connection, chat_id, closes)
        store.move(
            connection,
            chat_id,
            [(m.id, m.message.external_id, m.message.position, m.message.sent_at) for m in moves],
        )
        _place(connection, tenant_id, chat, placed, touched, policy)
        chats.settle(connection, chat_id, settle)
        session_ranges.close_sessions(
            connection, tenant_id, chat_id, policy.for_chat(chat), priority=jobs.LATER
        )
    return len(moves)


def _place(
    connection: Connection,
    tenant_id: str,
    chat: Chat,
    placed: Sequence[store.Held],
    touched: Sequence[Session],
    policy: SessionPolicy,
) -> None:
    """Take messages out of their sessions, and place them where they belong now."""
    if not placed:
        return
    # while they wait they do not count as messages of the sessions that they leave
    ids = [message.id for message in placed]
    arrived = store.arrive_anew(connection, tenant_id, chat.chat_id, ids)
    emptied = [
        session
        for session in touched
        if not session_ranges.split_what_is_left(connection, tenant_id, session, chat.language, policy)
    ]
    store.set_aside(connection, [session.id for session in emptied])
    if policy.for_chat(chat).memory:
        place.put(connection, tenant_id, {chat.chat_id: chat}, arrived, policy)
    messages.forget_arrivals(connection, ids)
    now_at = {each.message_id: each.sent_at for each in arrived}
    into = _homes(connection, chat.chat_id, emptied, placed, now_at)
    session_ranges.lead_on(connection, tenant_id, into)
    for session in emptied:
        if session.id not in into:
            edits.drop_session(connection, tenant_id, session.id)


def _homes(
    connection: Connection,
    chat_id: str,
    emptied: Sequence[Session],
    placed: Sequence[store.Held],
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
