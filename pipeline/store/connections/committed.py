"""Log lines of a transaction, written once it is committed and dropped if it is rolled back."""

from collections.abc import Iterator
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
