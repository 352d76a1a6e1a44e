"""Transactions that raise this project's errors, are retried after a deadlock, and log once committed."""

import random
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import psycopg
import structlog
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


log = structlog.get_logger(__name__)

_LINES = "backscroll.lines"
LogLine = tuple[str, dict[str, Any]]


def log_once_committed(connection: Connection, event: str, **fields: Any) -> None:
    """Have a line logged after the commit; `fields` are ids and numbers, never texts; None is left out."""
    known = {name: value for name, value in fields.items() if value is not None}
    connection.info[_LINES].append((event, known))


def take_back_lines(connection: Connection, event: str, name: str, values: Collection[Any]) -> set[Any]:
    """Take back what was told of an event with one of these values in a field; return the values found."""
    lines = connection.info[_LINES]
    found = {fields[name] for told, fields in lines if told == event and fields[name] in values}
    lines[:] = [line for line in lines if line[0] != event or line[1][name] not in found]
    return found


@contextmanager
def lines_of(connection: Connection, lines: list[LogLine]) -> Iterator[None]:
    """Collect the lines told during a block; drop them if its caller has rolled back."""
    # the same object when the connection is lost meanwhile
    info = connection.info
    collected: list[LogLine] = []
    info[_LINES] = collected
    try:
        yield
    finally:
        del info[_LINES]
    if connection.in_transaction():
        lines += collected


def write_lines(lines: list[LogLine]) -> None:
    """Write collected lines to the log."""
    for event, fields in lines:
        log.info(event, **fields)


T = TypeVar("T")


def batched(
    items: Iterable[T], max_items: int, max_size: float = 0, size: Callable[[T], float] = lambda _: 0
) -> Iterator[list[T]]:
    """Yield the items in order, in batches of at most `max_items` items and `max_size` in total, but of one at least.

    >>> list(batched([1, 2, 3, 9, 1], 2)), list(batched([1, 2, 3, 9, 1], 5, 6, float))
    ([[1, 2], [3, 9], [1]], [[1, 2, 3], [9], [1]])
    """
    batch: list[T] = []
    total = 0.0
    for item in items:
        item_size = size(item)
        if batch and (len(batch) == max_items or total + item_size > max_size):
            yield batch
            batch, total = [], 0.0
        batch.append(item)
        total += item_size
    if batch:
        yield batch
