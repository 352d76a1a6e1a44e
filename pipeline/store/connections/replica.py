"""A standby of Postgres that answers what only reads, while it has all that was committed before it was asked.

A question reads the primary's position in its log, and waits a moment until the standby has replayed that. So a write
by any process is seen by whoever asks next, and nobody sees who was forgotten or has left a chat; no clocks are
compared, and no writers are remembered.
"""

import time
from typing import Any, NamedTuple

import structlog
from sqlalchemy import Engine

from pipeline.store.connections.trips import Statement

log = structlog.get_logger(__name__)

CATCH_UP_SECONDS = 0.02
"""How long a question waits for the standby, which is mostly some milliseconds behind; then the primary answers it."""
POLL_SECONDS = 0.002
ANSWER_SECONDS = 1.0
"""How long a standby may take to tell how far it is."""

# null on a server that is a standby itself
POSITION: Statement = (
    "SELECT CASE WHEN NOT pg_is_in_recovery() THEN pg_current_wal_flush_lsn()::text END",
    {},
)
IDENTITY: Statement = (
    "SELECT system_identifier::text || '/' || current_database(), pg_is_in_recovery(), rolsuper OR rolbypassrls, "
    "rolname FROM pg_control_system(), pg_roles WHERE rolname = current_user",
    {},
)


class Identity(NamedTuple):
    """What a login reaches: a database of a cluster, whether as a standby, and whether past row-level security."""

    place: str
    is_standby: bool
    is_unbound: bool
    role: str


def has_replayed(position: str) -> Statement:
    """Return the statement that tells whether a standby has all up to a position."""
    replayed = "SELECT pg_is_in_recovery() AND pg_last_wal_replay_lsn() >= CAST(%(position)s AS pg_lsn)"
    return replayed, {"position": position}


class Replica:
    """The pool on a standby, and why it is not used."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        # None: it is used
        self.problem: str | None = "it was not looked at yet"

    def note(self, problem: str | None) -> None:
        """Note why it is not used from now on, and log each change once."""
        if (self.problem is None) != (problem is None):
            log.warning("replica_not_used", reason=problem) if problem else log.info("replica_used")
        self.problem = problem


def poll(ask: Any) -> bool:
    """Ask until the answer is yes, for `CATCH_UP_SECONDS`; return the last answer."""
    deadline = time.monotonic() + CATCH_UP_SECONDS
    while not (answer := ask()) and time.monotonic() < deadline:
        time.sleep(POLL_SECONDS)
    return bool(answer)
