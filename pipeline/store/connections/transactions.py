"""Transactions that raise this project's errors, and are retried after a deadlock."""

import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import psycopg
from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from schemas.errors import BackscrollError, DatabaseUnavailable, Retryable

R = TypeVar("R")

ATTEMPTS = 3

# A row beyond a limit of Postgres ("program limit exceeded"): psycopg calls it operational, but no retry helps.
_LIMITS = "54"
# Victims of a deadlock, a serialization failure or a lock timeout; a retry works.
_TRY_AGAIN = {"40001", "40P01", "55P03"}
# Postgres takes no writes: it has become a standby, or its host made it read-only as the disk is full.
READ_ONLY = "25006"


@contextmanager
def transaction(engine: Engine) -> Iterator[Connection]:
    """Begin a transaction; commit at the end. Raises as `translating` does."""
    with translating(), engine.begin() as connection:
        yield connection


@contextmanager
def translating() -> Iterator[None]:
    """Translate the errors of a transaction for which a retry may help."""
    try:
        yield
    except BackscrollError:
        raise
    except PoolTimeout as error:
        raise DatabaseUnavailable("All connections to Postgres are taken") from error
    except (OperationalError, InterfaceError, psycopg.OperationalError, psycopg.InterfaceError) as error:
        if (sqlstate_of(error) or "").startswith(_LIMITS):
            raise
        raise _translated(error) from error
    except (DBAPIError, psycopg.Error) as error:
        if sqlstate_of(error) == READ_ONLY or getattr(error, "connection_invalidated", False):
            raise _translated(error) from error
        raise


def persistently(act: Callable[[], R]) -> R:
    """Run a transaction again, up to `ATTEMPTS` times in all, when Postgres ended it to resolve a deadlock.

    Any subclass of `Retryable`, an outage, is raised at once: waiting for it is the sender's part.
    """
    for attempt in range(1, ATTEMPTS):
        try:
            return act()
        except Retryable as error:
            if type(error) is not Retryable:
                raise
            # random, so that two victims of each other do not collide again
            time.sleep(random.uniform(0, 0.05 * attempt))  # noqa: S311
    return act()


def sqlstate_of(error: BaseException) -> str | None:
    """Return an error's SQLSTATE; None if it is not from Postgres."""
    return getattr(_orig(error), "sqlstate", None)


def _orig(error: BaseException) -> BaseException:
    """Return the driver's error, with or without SQLAlchemy around it."""
    return getattr(error, "orig", None) or error


def _translated(error: Exception) -> Retryable:
    orig = _orig(error)
    reason = str(orig).strip().splitlines()[0] if str(orig).strip() else type(orig).__name__
    sqlstate = sqlstate_of(error)
    if sqlstate in _TRY_AGAIN:
        return Retryable(f"Postgres asks to try again: {reason}")
    if sqlstate == READ_ONLY:
        return DatabaseUnavailable(f"Postgres takes no writes: {reason}")
    if getattr(error, "connection_invalidated", False):
        # the server was restarted, or ended the session of a process that was paused too long
        return DatabaseUnavailable(f"The connection to Postgres ended: {reason}")
    return DatabaseUnavailable(f"Postgres cannot be reached: {reason}")
