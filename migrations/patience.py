"""Retry migrations that do not get their locks at once, and run only one at a time.

A statement that waits for a table's lock makes all later ones wait behind it, the HTTP API's messages too. So a
migration gives up after a second, lets them through, and tries again, however long another transaction takes.
"""

import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from sqlalchemy import Connection, text
from sqlalchemy.exc import OperationalError

from schemas.errors import DatabaseUnavailable

# Any constant will do; it names "migrating Backscroll" among the advisory locks of this database.
MIGRATING = 0x6261636B
# Seconds of one attempt. The HTTP API's own statements wait for up to 15 s, so none of them fails.
LOCK_SECONDS = 1.0
# Of all tries together: a dump of the database may hold its locks so long.
PATIENCE_SECONDS = 600.0
PAUSE_SECONDS = 1.0
# Of one statement in a transaction, with the locks that it has.
STATEMENT_SECONDS = 600.0
_LOCK_NOT_AVAILABLE = "55P03"


@contextmanager
def alone(connection: Connection) -> Iterator[None]:
    """Hold this database's advisory lock for migrations; wait while another migration has it.

    The lock belongs to the database session, so it outlives transactions. Raises `DatabaseUnavailable` after
    `PATIENCE_SECONDS`.
    """
    deadline = time.monotonic() + PATIENCE_SECONDS
    # tried, not waited for: a statement that waits is a transaction that concurrent index builds wait for
    while not connection.scalar(text("SELECT pg_try_advisory_lock(:key)"), {"key": MIGRATING}):
        connection.rollback()
        if time.monotonic() > deadline:
            raise DatabaseUnavailable(
                "another migration is running on this database: wait for it and try again"
            )
        time.sleep(PAUSE_SECONDS / 2)
    connection.commit()
    try:
        yield
    finally:
        connection.rollback()
        connection.execute(text("SELECT pg_advisory_unlock(:key)"), {"key": MIGRATING})
        connection.commit()


def persistently(connection: Connection, act: Callable[[], None]) -> None:
    """Run `act`, which takes locks in its own transactions on this connection, until it gets them.

    Raises `DatabaseUnavailable` after `PATIENCE_SECONDS`.
    """
    connection.execute(text(f"SET lock_timeout = '{int(LOCK_SECONDS * 1000)}ms'"))
    connection.commit()
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            act()
        except OperationalError as error:
            connection.rollback()
            if getattr(error.orig, "sqlstate", None) != _LOCK_NOT_AVAILABLE:
                raise
            if time.monotonic() > deadline:
                raise DatabaseUnavailable(
                    "a transaction has kept the tables locked all the time: end it (see pg_stat_activity) and "
                    "try again; what was migrated until now stays"
                ) from error
            time.sleep(random.uniform(0.5, 1.5) * PAUSE_SECONDS)  # noqa: S311
        else:
            return
