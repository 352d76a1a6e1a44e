"""Log lines of what a transaction has done, written once it is committed: one that is rolled back has done nothing."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import structlog
from sqlalchemy import Connection

log = structlog.get_logger(__name__)

_LINES = "backscroll.lines"
Line = tuple[str, dict[str, Any]]


def tell(connection: Connection, event: str, **fields: Any) -> None:
    """Have a line logged after the commit; `fields` are ids and numbers, never texts, and none that is None."""
    known = {name: value for name, value in fields.items() if value is not None}
    connection.info[_LINES].append((event, known))


@contextmanager
def lines_of(connection: Connection, lines: list[Line]) -> Iterator[None]:
    """Collect what is told during a block; nothing if its caller has rolled back."""
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
    """Log what was collected."""
    for event, fields in lines:
        log.info(event, **fields)
