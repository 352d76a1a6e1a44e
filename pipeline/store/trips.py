"""Send several statements in one write, as one transaction, and read their answers at once.

psycopg's own pipeline writes, waits and makes a cursor for each statement: half of what the process pays for a message.
"""

import asyncio
import re
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from itertools import count
from typing import Any

import psycopg
from psycopg import generators
from psycopg.adapt import PyFormat, Transformer
from psycopg.errors import error_from_result
from psycopg.pq import ExecStatus
from psycopg.pq.abc import PGresult
from psycopg.sql import Literal

Statement = tuple[str, Mapping[str, Any]]
"""SQL with `%(name)s` for each parameter, and the parameters."""
Prepared = dict[tuple[str, tuple[int, ...]], bytes]
"""The names of the statements that a connection has prepared, by their text and the types of their parameters."""

_NUMBERS = count()
_PARAMETER = re.compile(r"%\((\w+)\)s")


def begin(driver: "psycopg.Connection[Any]", command: str, *values: Any) -> None:
    """Begin a transaction with a command that is sent together with BEGIN, `%s` in it for each value.

    Raises `psycopg.Error`.
    """
    literals = (Literal(value).as_string(driver) for value in values)
    driver.pgconn.send_query(f"BEGIN; {command % tuple(literals)}".encode(driver.info.encoding))
    for result in driver.wait(generators.execute(driver.pgconn)):
        if result.status == ExecStatus.FATAL_ERROR:
            raise error_from_result(result)


def send(
    driver: "psycopg.Connection[Any]", prepared: Prepared, statements: Sequence[Statement]
) -> tuple[Any, ...] | None:
    """Run statements in one transaction, committed when this returns; the last one's first row.

    The connection must be idle; after an error it must be closed. Raises `psycopg.Error`.
    """
    try:
        return _send(driver, prepared, statements)
    except psycopg.errors.InvalidSqlStatementName:
        # psycopg has deallocated all statements, as it does after a rollback; of this transaction nothing was done
        driver.pgconn.exit_pipeline_mode()
        prepared.clear()
        return _send(driver, prepared, statements)


async def send_from_loop(
    driver: "psycopg.Connection[Any]", prepared: Prepared, statements: Sequence[Statement]
) -> tuple[Any, ...] | None:
    """Run small statements as `send` does, from the event loop, which goes on meanwhile.

    The connection must serve nothing else, ever; after an error, or when this is cancelled, it must be closed.
    """
    trip, connection, loop = _Trip(driver, prepared, statements), driver.pgconn, asyncio.get_running_loop()
    done: asyncio.Future[None] = loop.create_future()

    def read() -> None:
        try:
            connection.consume_input()
            if trip.take_answers() and not done.done():
                done.set_result(None)
        except Exception as error:  # noqa: BLE001 - it is raised where the answers are awaited
            if not done.done():
                done.set_exception(error)

    connection.enter_pipeline_mode()
    trip.write()
    while connection.flush():
        await asyncio.sleep(0)
    socket = connection.socket
    loop.add_reader(socket, read)
    try:
        await done
    finally:
        loop.remove_reader(socket)
    return trip.row()


def _send(
    driver: "psycopg.Connection[Any]", prepared: Prepared, statements: Sequence[Statement]
) -> tuple[Any, ...] | None:
    trip = _Trip(driver, prepared, statements)
    driver.pgconn.enter_pipeline_mode()
    trip.answers = driver.wait(generators.pipeline_communicate(driver.pgconn, deque([trip.write])))
    while len(trip.answers) < len(trip.commands):
        trip.answers.append(driver.wait(generators.fetch_many(driver.pgconn)))
    return trip.row()


class _Trip:
    """The commands of statements that are sent together, and the answers that have come."""

    def __init__(
        self, driver: "psycopg.Connection[Any]", prepared: Prepared, statements: Sequence[Statement]
    ) -> None:
        self.commands: list[Callable[[], None]] = []
        self.answers: list[list[PGresult]] = []
        self._connection, self._prepared = driver.pgconn, prepared
        self._new: Prepared = {}
        # of the answer under way
        self._results: list[PGresult] = []
        for sql, values in statements:
            text, names = _numbered(sql)
            self._adapt = Transformer(driver)
            given = self._adapt.dump_sequence([values[name] for name in names], [PyFormat.AUTO] * len(names))
            key = sql, self._adapt.types or ()
            if key not in prepared and key not in self._new:
                self._new[key] = b"trip%d" % next(_NUMBERS)
                self.commands.append(partial(self._connection.send_prepare, self._new[key], text, key[1]))
            name = prepared.get(key) or self._new[key]
            self.commands.append(
                partial(self._connection.send_query_prepared, name, given, self._adapt.formats)
            )
        self.commands.append(self._connection.pipeline_sync)

    def write(self) -> None:
        """Put all commands into the connection's buffer."""
        for command in self.commands:
            command()

    def take_answers(self) -> bool:
        """Take the answers that were read, and tell whether these are all."""
        while len(self.answers) < len(self.commands):
            if self._connection.is_busy():
                return False
            result = self._connection.get_result()
            if result is not None:
                self._results.append(result)
            if result is None or result.status == ExecStatus.PIPELINE_SYNC:
                self.answers.append(self._results)
                self._results = []
        return True

    def row(self) -> tuple[Any, ...] | None:
        """Return the last statement's first row, when all answers have come. Raises `psycopg.Error`."""
        for answer in self.answers:
            if answer and answer[0].status == ExecStatus.FATAL_ERROR:
                raise error_from_result(answer[0])
        if not self.answers[-1] or self.answers[-1][0].status != ExecStatus.PIPELINE_SYNC:
            raise psycopg.OperationalError("the connection was lost before the commit was answered")
        self._connection.exit_pipeline_mode()
        self._prepared |= self._new
        self._adapt.set_pgresult(self.answers[-2][0])
        return self._adapt.load_row(0, tuple)


@cache
def _numbered(sql: str) -> tuple[bytes, list[str]]:
    """SQL with `$1` for its first parameter and so on, and the parameters' names."""
    names: dict[str, int] = {}
    text = _PARAMETER.sub(lambda found: f"${names.setdefault(found[1], len(names) + 1)}", sql)
    return text.encode(), list(names)
