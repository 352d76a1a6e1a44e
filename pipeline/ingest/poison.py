"""Place a chat's arrivals one by one after placing them together has failed, and quarantine those to blame.

Each try is counted before it is made: an arrival whose count is left was tried by a process that died, and is tried
last. An arrival to blame becomes a dead letter with the reason, and the rest of the chat goes on.
"""

from collections.abc import Callable, Set

import structlog
from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from pipeline.jobs.failures import reason_of
from pipeline.store.connections.database import Database
from pipeline.store.jobs import jobs, quarantine
from pipeline.store.jobs.jobs import Claim
from pipeline.store.messages import messages
from pipeline.store.messages.messages import Arrival
from pipeline.store.operations import counters

log = structlog.get_logger(__name__)

LEASE_SECONDS = 5.0
"""The lease while one arrival is tried, which takes milliseconds: if the process dies, the chat waits no longer."""

ARRIVALS_PER_TURN = 500
"""Arrivals tried in one turn: some ten seconds."""

MAX_BLAMED_PER_TURN = 10
"""If more arrivals than this fail in one turn, the fault is elsewhere: none is quarantined."""

# SQLSTATE classes that blame the row: data, constraints, limits, and errors raised by triggers. All others
# (connections, locks, space, missing tables) would fail any message.
_ROW_ERROR_CLASSES = ("22", "23", "54", "P0")

PlaceOne = Callable[[Connection, Arrival], Set[str]]
"""Place one arrival; return the kinds of jobs that are due now."""


def blames_the_row(error: Exception) -> bool:
    """Tell whether an error can be a single message's fault: its values, and not the state of the servers."""
    if isinstance(error, DBAPIError):
        return (getattr(error.orig, "sqlstate", None) or "").startswith(_ROW_ERROR_CLASSES)
    return isinstance(error, (ArithmeticError, ValueError))


def place_each(
    database: Database, claim: Claim, max_attempts: int, place_one: PlaceOne
) -> tuple[set[str], bool]:
    """Try each arrival of the chat in a transaction of its own; return `(kinds due now, whether all were tried)`.

    If there are more than one turn takes, the claim is due at once: after an error its arrivals are placed together
    again, after a process death one by one until all were tried. A death resets the chat's attempts: they are counted
    for each arrival, with the joint try as one of each. Raises `LeaseLost`, and errors of `place_one` that blame no
    arrival or too many.
    """
    tenant_id = claim.tenant_id
    follows: set[str] = set()
    blamed: dict[int, str] = {}
    with database.tenant(tenant_id) as connection:
        arrived, _ = messages.arrivals(connection, [claim.key], ARRIVALS_PER_TURN + 1)
        tries = quarantine.tries(connection, [arrival.key for arrival in arrived])
    waiting = sorted(arrived, key=lambda arrival: tries.get(arrival.key, 0))
    for arrival in waiting[:ARRIVALS_PER_TURN]:
        died = tries.get(arrival.key, 0)
        if died >= max_attempts - 1:
            reason = f"the process that placed it died each time, {died + 1} tries"
            _quarantine(database, claim, {arrival.message_id: reason})
            continue
        with database.tenant(tenant_id) as connection:
            jobs.renew(connection, claim, LEASE_SECONDS, anew=claim.abandoned)
            quarantine.count_try(connection, tenant_id, arrival.key)
        try:
            with database.tenant(tenant_id) as connection:
                follows |= place_one(connection, arrival)
                quarantine.clear_tries(connection, tenant_id, arrival.key)
        except Exception as error:
            with database.tenant(tenant_id) as connection:
                quarantine.clear_tries(connection, tenant_id, arrival.key)
            if not blames_the_row(error) or len(blamed) == MAX_BLAMED_PER_TURN:
                raise
            blamed[arrival.message_id] = reason_of(error)
    _quarantine(database, claim, blamed)
    if len(waiting) <= ARRIVALS_PER_TURN:
        return follows, True
    with database.tenant(tenant_id) as connection:
        if claim.abandoned:
            jobs.renew(connection, claim, 0, anew=True)
        else:
            jobs.finish(connection, [claim], again_in=0)
    return follows, False


def _quarantine(database: Database, claim: Claim, blamed: dict[int, str]) -> None:
    """Quarantine arrivals, each with its reason."""
    if not blamed:
        return
    tenant_id = claim.tenant_id
    with database.tenant(tenant_id) as connection:
        for message_id, reason in blamed.items():
            messages.quarantine(connection, claim.key, message_id, reason, claim.trace_id)
            quarantine.clear_tries(connection, tenant_id, f"message:{message_id}")
            log.warning("arrival_quarantined", chat_id=claim.key, message_id=message_id, error=reason)
        counters.add(connection, tenant_id, {"messages_quarantined": len(blamed)})
