"""Send several statements in one write, as one transaction, and read their answers at once; also through a pooler.

psycopg's own pipeline makes a cursor for each statement and waits for each answer: three times the processor time. Only
that is left out here; what writes, reads and waits is psycopg's.

Through a pooler session state would leak to another client: prepared statements, settings, advisory locks.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from itertools import count
from typing import Any

import psycopg
from psycopg import generators, waiting
from psycopg.abc import PQGen
from psycopg.adapt import PyFormat, Transformer
from psycopg.errors import error_from_result
from psycopg.pq import ExecStatus, TransactionStatus
from psycopg.sql import Literal

from schemas.errors import SettingsError

Statement = tuple[str, Mapping[str, Any]]
"""SQL with `%(name)s` for each parameter, and the parameters."""
Prepared = dict[tuple[str, tuple[int, ...]], bytes]
"""The names of the statements that a connection has prepared, by their text and the types of their parameters."""
Row = tuple[Any, ...] | None

TRIP_SECONDS = 60.0
"""Time for all answers: two locks are waited for at most 15 s each, and the statements take under a second."""

# Seconds between checks for Ctrl-C during a wait.
_INTERVAL = 0.1
_NUMBERS = count()
_PARAMETER = re.compile(r"%\((\w+)\)s")


def begin(driver: "psycopg.Connection[Any]", command: str, *values: Any) -> None:
    """Begin a transaction, unless one has begun, with a command that is sent together, `%s` in it for each value.

    Raises `psycopg.Error`, after `TRIP_SECONDS` at the latest; the connection is closed then.
    """
    literals = (Literal(value).as_string(driver) for value in values)
    first = "BEGIN; " if driver.info.transaction_status == TransactionStatus.IDLE else ""
    driver.pgconn.send_query(f"{first}{command % tuple(literals)}".encode(driver.info.encoding))
    try:
        results = driver.wait(generators.execute(driver.pgconn), timeout=TRIP_SECONDS)
    except psycopg.OperationalError:
        # a late answer would be taken for that of the next command
        driver.close()
        raise
    for result in results:
        if result.status == ExecStatus.FATAL_ERROR:
            raise error_from_result(result)


def send(
    driver: "psycopg.Connection[Any]",
    prepared: Prepared,
    statements: Sequence[Statement],
    seconds: float | None = None,
) -> Row:
    """Run statements in one transaction, committed on return; return the last one's first row.

    The connection must be idle; after an error it must be closed. Raises `psycopg.Error`, `seconds` later at most.
    """
    try:
        return driver.wait(_exchange(driver, prepared, statements), timeout=seconds or TRIP_SECONDS)
    except psycopg.errors.InvalidSqlStatementName:
        # psycopg has deallocated all statements, as after a rollback; this transaction had no effect
        driver.pgconn.exit_pipeline_mode()
        prepared.clear()
        return driver.wait(_exchange(driver, prepared, statements), timeout=seconds or TRIP_SECONDS)


async def send_from_loop(
    driver: "psycopg.Connection[Any]", prepared: Prepared, statements: Sequence[Statement]
) -> Row:
    """Run small statements as `send` does, without blocking the event loop.

    The connection must serve nothing else, ever; after an error, or when this is cancelled, it must be closed.
    """
    exchange = _exchange(driver, prepared, statements)
    return await waiting.wait_async(exchange, driver.pgconn.socket, _INTERVAL, TRIP_SECONDS)


def _exchange(
    driver: "psycopg.Connection[Any]", prepared: Prepared, statements: Sequence[Statement]
) -> PQGen[Row]:
    """Send statements and read their answers, as psycopg's waits want it: what it yields is to be waited for."""
    connection = driver.pgconn
    new: Prepared = {}
    commands: list[Callable[[], None]] = []
    # with a pooler a session keeps nothing
    keeps = driver.prepare_threshold is not None
    for sql, values in statements if keeps else [(pooler_settings("transaction"), {}), *statements]:
        text, names = _numbered(sql)
        adapt = Transformer(driver)
        parameters = adapt.dump_sequence([values[name] for name in names], [PyFormat.AUTO] * len(names))
        key = sql, adapt.types or ()
        if not keeps:
            bound = parameters, key[1], adapt.formats
            commands.append(partial(connection.send_query_params, text, *bound))
            continue
        name = prepared.get(key) or new.get(key)
        if name is None:
            name = new[key] = b"trip%d" % next(_NUMBERS)
            commands.append(partial(connection.send_prepare, name, text, key[1]))
        commands.append(partial(connection.send_query_prepared, name, parameters, adapt.formats))
    commands.append(connection.pipeline_sync)
    connection.enter_pipeline_mode()
    for command in commands:
        command()
    # nothing is awaited before all is written, and what is answered meanwhile is read: neither side blocks the other
    yield from generators.send(connection)
    answers = []
    for _ in commands:
        answer = yield from generators.fetch_many(connection)
        answers.append(answer)
    for answer in answers:
        if answer and answer[0].status == ExecStatus.FATAL_ERROR:
            raise error_from_result(answer[0])
    if not answers[-1] or answers[-1][0].status != ExecStatus.PIPELINE_SYNC:
        raise psycopg.OperationalError("the connection was lost before the commit was answered")
    connection.exit_pipeline_mode()
    prepared |= new
    adapt.set_pgresult(answers[-2][0])
    return adapt.load_row(0, tuple)


@cache
def _numbered(sql: str) -> tuple[bytes, list[str]]:
    """Return SQL with `$1` for its first parameter and so on, and the parameters' names."""
    names: dict[str, int] = {}
    text = _PARAMETER.sub(lambda match: f"${names.setdefault(match[1], len(names) + 1)}", sql)
    return text.encode(), list(names)


# A stopped process must release its locks, and no lock wait may outlast a lease. A search by a vector index skips
# vectors of other chats and tenants, and goes on until it has enough.
_SETTINGS = {
    "idle_in_transaction_session_timeout": "10s",
    "lock_timeout": "15s",
    "jit": "off",
    "hnsw.iterative_scan": "relaxed_order",
    # vectors examined in one step
    "hnsw.ef_search": "100",
}


def pooler_settings(span: str) -> str:
    """Return the statement that sets what every transaction relies on, for a `session` or a `transaction`."""
    is_local = str(span == "transaction").lower()
    return "SELECT " + ", ".join(f"set_config('{n}', '{v}', {is_local})" for n, v in _SETTINGS.items())


def is_pooled(driver: "psycopg.Connection[Any]") -> bool:
    """Tell whether queries are answered by another server process than the one that logged in."""
    (answers,) = driver.execute("SELECT pg_backend_pid()").fetchone() or (None,)
    return bool(answers != driver.info.backend_pid)


def require_direct(driver: "psycopg.Connection[Any]", setting: str) -> None:
    """Raise `SettingsError` for a connection through a pooler, where a lock or setting of a session would be lost."""
    if is_pooled(driver):
        raise SettingsError(
            f"{setting} goes through a connection pooler, such as PgBouncer: name Postgres itself there, by its own "
            "port. The URLs of the other roles may go through it"
        )
