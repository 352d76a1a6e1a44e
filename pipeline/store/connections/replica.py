"""A standby of Postgres that answers what only reads, while it has all that was committed before it was asked.

A question reads the primary's position in its log, and waits a moment until the standby has replayed that. So a write
by any process is seen by whoever asks next, and nobody sees who was forgotten or has left a chat; no clocks are
compared, and no writers are remembered.
"""

import time
from collections.abc import Callable, Sequence
from typing import Any

import structlog
from sqlalchemy import Engine

from pipeline.store.connections.trips import Row, Statement
from schemas.errors import SettingsError

log = structlog.get_logger(__name__)

CATCH_UP_SECONDS = 0.02
"""How long a question waits for the standby, which is mostly some milliseconds behind; then the primary answers it."""
POLL_SECONDS = 0.002
ANSWER_SECONDS = 1.0
"""How long a standby may take to tell how far it is."""

# Null on a server that is a standby itself. Where commits do not wait for the disk, they are seen before.
POSITION: Statement = (
    """SELECT CASE WHEN pg_is_in_recovery() THEN NULL WHEN current_setting('synchronous_commit') = 'off'
        THEN pg_current_wal_insert_lsn()::text ELSE pg_current_wal_flush_lsn()::text END""",
    {},
)
HAS_REPLAYED = "SELECT pg_is_in_recovery() AND pg_last_wal_replay_lsn() >= CAST(%(position)s AS pg_lsn)"
# the database of a cluster, whether it is a standby there, whether the role is above row-level security, and its name
IDENTITY: Statement = (
    """SELECT system_identifier::text || '/' || current_database(), pg_is_in_recovery(), rolsuper OR rolbypassrls,
        rolname FROM pg_control_system(), pg_roles WHERE rolname = current_user""",
    {},
)


class Replica:
    """The pool on a standby, and why it is not used."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        # None: it is used
        self.problem: str | None = "it was not looked at yet"

    def judge(self, here: Sequence[Any], there: Sequence[Any]) -> None:
        """Use it if its `IDENTITY` fits the primary's. Raises `SettingsError` if its URL must not be used at all."""
        place, is_standby, is_unbound, role = there
        wrong = None
        if is_unbound:
            wrong = f"logs in as {role}, which row-level security does not bind"
        elif place != here[0]:
            wrong = "names another database than BACKSCROLL_DATABASE_URL: no standby of it"
        # one that was promoted may be named by both
        self.note(wrong or (None if is_standby else "it is no standby, but a primary"))
        if wrong:
            raise SettingsError(f"BACKSCROLL_DATABASE_READ_URL {wrong}")

    def note(self, problem: str | None) -> None:
        """Note why it is not used from now on, and log each change once."""
        if (self.problem is None) != (problem is None):
            log.warning("replica_not_used", reason=problem) if problem else log.info("replica_used")
        self.problem = problem


def poll(ask: Callable[[], Row]) -> bool:
    """Ask until the answer is yes, for `CATCH_UP_SECONDS`; return the last answer."""
    deadline = time.monotonic() + CATCH_UP_SECONDS
    while not (answer := ask() == (True,)) and time.monotonic() < deadline:
        time.sleep(POLL_SECONDS)
    return answer
