"""Places a chat's arrivals one by one after a process died placing them, and finds out which of them kills.

A process that dies says nothing: no error can be caught and no transaction be undone for half of what was tried.
So each arrival is noted before it is tried; one that is found noted was tried by a process that died. Those are
tried last, so that the others are placed first, and when one has been tried as often as any work is, it stands
aside as a dead letter.
"""

from collections.abc import Callable, Sequence

import structlog
from sqlalchemy import Connection

from pipeline.jobs.runner import Claim
from pipeline.store import messages, suspects
from pipeline.store.database import Database
from pipeline.store.messages import Arrival
from schemas.errors import LeaseLost

log = structlog.get_logger(__name__)

SECONDS = 5.0
"""The lease while a single arrival is tried, which takes milliseconds: its chat waits no longer if that kills."""

Put = Callable[[Connection, Arrival], set[str]]
"""Places one arrival; returns the kinds of work that are owed now."""

AT_ONCE = 500
"""Arrivals tried in one turn: some ten seconds."""


def place_each(
    database: Database,
    tenant_id: str,
    claim: Claim,
    max_attempts: int,
    put: Put,
) -> tuple[set[str], bool]:
    """Try each arrival of the chat alone, in a transaction of its own; `(kinds owed now, whether all were tried)`.

    When there are more than one turn takes, the claim is left as a dead process leaves it, due at once.

    The chat's own attempts begin anew: from here on they are counted for each arrival. The try that killed first,
    of all together, counts as one of each. Raises `LeaseLost`, and what `put` raises.
    """
    follows: set[str] = set()
    for arrival, tries in (waiting := _waiting(database, tenant_id, claim))[:AT_ONCE]:
        if tries >= max_attempts - 1:
            _set_aside(database, tenant_id, claim, arrival, tries + 1)
            continue
        with database.tenant(tenant_id) as connection:
            if not suspects.hold(connection, tenant_id, claim.key, claim.token, SECONDS):
                raise LeaseLost(f"the placing of {claim.key} was claimed by somebody else")
            suspects.note(connection, tenant_id, arrival.message_id)
        with database.tenant(tenant_id) as connection:
            follows |= put(connection, arrival)
            suspects.acquit(connection, tenant_id, arrival.message_id)
    if len(waiting) <= AT_ONCE:
        return follows, True
    with database.tenant(tenant_id) as connection:
        suspects.hold(connection, tenant_id, claim.key, claim.token, 0)
    return follows, False


def _waiting(database: Database, tenant_id: str, claim: Claim) -> Sequence[tuple[Arrival, int]]:
    """The chat's arrivals with how often each was tried alone; those never tried first."""
    with database.tenant(tenant_id) as connection:
        arrived, _ = messages.arrivals(connection, [claim.key], AT_ONCE + 1)
        tries = suspects.tries(connection, [arrival.message_id for arrival in arrived])
    counted = [(arrival, tries.get(arrival.message_id, 0)) for arrival in arrived]
    return sorted(counted, key=lambda pair: pair[1])


def _set_aside(database: Database, tenant_id: str, claim: Claim, arrival: Arrival, tries: int) -> None:
    reason = f"the process that placed it died each time, {tries} tries"
    with database.tenant(tenant_id) as connection:
        messages.quarantine(connection, claim.key, arrival.message_id, reason, claim.trace_id)
        suspects.acquit(connection, tenant_id, arrival.message_id)
    log.warning("arrival_quarantined", chat_id=claim.key, message_id=arrival.message_id, error=reason)
