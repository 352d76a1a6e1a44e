"""How a migration waits: shortly for each lock, again and again, and never beside another one.

Whoever waits for a table's lock lets all that come after wait behind it, the door's messages too. So a migration
gives up after a second, lets them through, and tries again, however long somebody else's transaction takes.
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
# Of one try. The door's own statements wait for up to 15 s, so none of them fails by it.
LOCK_SECONDS = 1.0
# Of all tries together: a dump of the database may hold its locks so long.
PATIENCE_SECONDS = 600.0
PAUSE_SECONDS = 1.0
# Of one statement in a transaction, with the locks that it has.
STATEMENT_SECONDS = 600.0
_LOCK_NOT_AVAILABLE = "55P03"


@contextmanager
def alone(connection: Connection, patience_seconds: float = PATIENCE_SECONDS) -> Iterator[None]:
    """While this holds nobody else migrates this database; waits for whoever does.

    The lock is the session's, so that it outlives transactions. Raises `DatabaseUnavailable` after the patience.
    """
    deadline = time.monotonic() + patience_seconds
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


def persistently(
    connection: Connection, act: Callable[[], None], patience_seconds: float = PATIENCE_SECONDS
) -> None:
    """Do what takes locks in transactions of its own on this connection, anew while it does not get them.

    Raises `DatabaseUnavailable` after the patience.
    """
    connection.execute(text(f"SET lock_timeout = '{int(LOCK_SECONDS * 1000)}ms'"))
    connection.commit()
    deadline = time.monotonic() + patience_seconds
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
