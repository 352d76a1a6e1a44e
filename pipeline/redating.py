"""Give stored messages the times that an import reads now, after an earlier one read its clock or dates otherwise.

A moved message leaves its session, which is cut again from what is left, and arrives anew: whoever places arrivals
finds where it belongs. So it takes nothing that placing does not do, and a run that is broken off goes on with the
next: what has its time already is not moved.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial

from sqlalchemy import Connection

from pipeline import ranges
from pipeline.retry import persistently
from pipeline.rules import Rules
from pipeline.store import changes, chats, work
from pipeline.store import redating as store
from pipeline.store import tombstones as stones
from pipeline.store.database import Database
from schemas.messages import MessageIn
from schemas.sessions import is_named

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
    """Whether two times can be one time that was read by two clocks or date orders."""
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
    """Move messages of one chat, in slices of a transaction each; how many were there to be moved.

    Placing them is owed then. `settle` is how long summaries wait. Raises `Retryable`; the same call may be made again.
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
        stones.lock(connection, tenant_id, chat_id)
        chat = chats.lock_alone(connection, chat_id)
        held = store.hold(connection, chat_id, [move.id for move in moves]) if chat else []
        if chat is None or not held:
            return 0
        there = {message.id: message for message in held}
        moves = [move for move in moves if move.id in there]
        placed = [message for message in held if message.placed]
        touched = changes.sessions_at(
            connection, chat_id, sorted({(message.session_key, message.sent_at) for message in placed})
        )
        _take_back_closes(connection, chat_id, moves, there)
        store.move(
            connection,
            chat_id,
            [(m.id, m.message.external_id, m.message.position, m.message.sent_at) for m in moves],
        )
        store.arrive_anew(connection, tenant_id, chat_id, [message.id for message in placed])
        chats.count_placed(connection, chat_id, -len(placed), -sum(message.lexemes for message in placed))
        for session in touched:
            ranges.split_anew(connection, tenant_id, session, chat.language, rules)
        chats.settle(connection, chat_id, settle)
        work.raise_wanted(connection, tenant_id, "ingest", [chat_id], lane=chat_id, priority=work.LATER)
    return len(moves)


def _take_back_closes(
    connection: Connection, chat_id: str, moves: Sequence[Move], there: dict[int, store.Held]
) -> None:
    closes = [
        (there[move.id].session_key, there[move.id].sent_at)
        for move in moves
        if move.message.closes_session and is_named(there[move.id].session_key)
    ]
    if closes:
        store.drop_closes(connection, chat_id, closes)
