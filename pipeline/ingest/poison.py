"""Places what can be placed of a chat's arrivals, and finds the ones to blame when placing fails.

What fails is halved until single arrivals are left that fail on their own; those stand aside with their reason,
and the rest of the chat goes on. All of it happens in the transaction that places: savepoints undo a half that
failed, so that a message is placed exactly once or not at all.
"""

from collections.abc import Callable, Sequence

import structlog
from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from pipeline.jobs.runner import reason_of
from pipeline.store import messages
from pipeline.store.messages import Arrival

log = structlog.get_logger(__name__)

AT_MOST = 10
"""When more arrivals than these fail in one turn, the fault is not theirs: the chat waits, nothing stands aside."""

# Classes of SQLSTATE that speak of the row: data, constraints, limits, and what a trigger raises. All others
# (connections, locks, space, missing tables) would befall any message.
_OF_THE_ROW = ("22", "23", "54", "P0")


def blames_the_row(error: Exception) -> bool:
    """Whether an error can be a single message's fault: its values, and not the state of the servers."""
    if isinstance(error, DBAPIError):
        return (getattr(error.orig, "sqlstate", None) or "").startswith(_OF_THE_ROW)
    return isinstance(error, (ArithmeticError, ValueError))


def place_around(
    connection: Connection,
    chat_id: str,
    arrived: Sequence[Arrival],
    put: Callable[[Sequence[Arrival]], None],
    *,
    trace_id: str | None = None,
) -> list[Arrival]:
    """Place what can be placed with `put`; the arrivals that were. The others are in quarantine.

    Raises what `put` raises when no single arrival is to blame for it, and when more than `AT_MOST` are.
    """
    refused = 0

    def attempt(some: Sequence[Arrival]) -> list[Arrival]:
        nonlocal refused
        try:
            with connection.begin_nested():
                put(some)
        except Exception as error:
            if not blames_the_row(error):
                raise
            if len(some) > 1:
                middle = len(some) // 2
                return attempt(some[:middle]) + attempt(some[middle:])
            refused += 1
            if refused > AT_MOST:
                raise
            reason = reason_of(error)
            messages.quarantine(connection, chat_id, some[0].message_id, reason, trace_id)
            log.warning("arrival_quarantined", chat_id=chat_id, message_id=some[0].message_id, error=reason)
            return []
        return list(some)

    return attempt(arrived) if arrived else []
