"""Send several statements in one write, as one transaction, and read their answers at once.

psycopg's own pipeline writes, waits and makes a cursor for each statement: half of what the process pays for a message.
"""

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

Statement = tuple[str, Mapping[str, Any]]
"""SQL with `%(name)s` for each parameter, and the parameters."""
Prepared = dict[tuple[str, tuple[int, ...]], bytes]
"""The names of the statements that a connection has prepared, by their text and the types of their parameters."""

_NUMBERS = count()
_PARAMETER = re.compile(r"%\((\w+)\)s")


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


def _send(
    driver: "psycopg.Connection[Any]", prepared: Prepared, statements: Sequence[Statement]
) -> tuple[Any, ...] | None:
    new: Prepared = {}
    commands: list[Callable[[], None]] = []
    for sql, values in statements:
        text, names = _numbered(sql)
        adapt = Transformer(driver)
        given = adapt.dump_sequence([values[name] for name in names], [PyFormat.AUTO] * len(names))
        key = sql, adapt.types or ()
        if key not in prepared and key not in new:
            new[key] = b"trip%d" % next(_NUMBERS)
            commands.append(partial(driver.pgconn.send_prepare, new[key], text, key[1]))
        name = prepared.get(key) or new[key]
        commands.append(partial(driver.pgconn.send_query_prepared, name, given, adapt.formats))
    commands.append(driver.pgconn.pipeline_sync)

    def write() -> None:
        for command in commands:
            command()

    driver.pgconn.enter_pipeline_mode()
    answers = driver.wait(generators.pipeline_communicate(driver.pgconn, deque([write])))
    while len(answers) < len(commands):
        answers.append(driver.wait(generators.fetch_many(driver.pgconn)))
    for answer in answers:
        if answer and answer[0].status == ExecStatus.FATAL_ERROR:
            raise error_from_result(answer[0])
    if not answers[-1] or answers[-1][0].status != ExecStatus.PIPELINE_SYNC:
        raise psycopg.OperationalError("the connection was lost before the commit was answered")
    driver.pgconn.exit_pipeline_mode()
    prepared |= new
    adapt.set_pgresult(answers[-2][0])
    return adapt.load_row(0, tuple)


@cache
def _numbered(sql: str) -> tuple[bytes, list[str]]:
    """SQL with `$1` for its first parameter and so on, and the parameters' names."""
    names: dict[str, int] = {}
    text = _PARAMETER.sub(lambda found: f"${names.setdefault(found[1], len(names) + 1)}", sql)
    return text.encode(), list(names)
