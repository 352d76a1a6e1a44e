"""Log lines of a transaction, written once it is committed and dropped if it is rolled back."""

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any

import structlog
from sqlalchemy import Connection

log = structlog.get_logger(__name__)

_LINES = "backscroll.lines"
Line = tuple[str, dict[str, Any]]


def tell(connection: Connection, event: str, **fields: Any) -> None:
    """Have a line logged after the commit; `fields` are ids and numbers, never texts; None is left out."""
    known = {name: value for name, value in fields.items() if value is not None}
    connection.info[_LINES].append((event, known))


def take_back(connection: Connection, event: str, name: str, values: Collection[Any]) -> set[Any]:
    """Take back what was told of an event with one of these values in a field; return the values found."""
    lines = connection.info[_LINES]
    found = {fields[name] for told, fields in lines if told == event and fields[name] in values}
    lines[:] = [line for line in lines if line[0] != event or line[1][name] not in found]
    return found


@contextmanager
def lines_of(connection: Connection, lines: list[Line]) -> Iterator[None]:
    """Collect the lines told during a block; drop them if its caller has rolled back."""
    # the same object when the connection is lost meanwhile
    info = connection.info
    collected: list[Line] = []
    info[_LINES] = collected
    try:
        yield
    finally:
        del info[_LINES]
    if connection.in_transaction():
        lines += collected


def write(lines: list[Line]) -> None:
    """Write collected lines to the log."""
    for event, fields in lines:
        log.info(event, **fields)
