"""The pools of connections: whoever asks next does not pay for a server that went away meanwhile."""

import asyncio
import socket
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from itertools import product
from typing import Any

import psycopg
import pytest
from sqlalchemy import text

from ops.local.embedded.postgres import EmbeddedPostgres
from pipeline.store.connections import trips
from pipeline.store.connections.database import Database
from schemas.errors import DatabaseUnavailable
from tests.conftest import TENANT
from tests.scripts import of_bytes


def test_connections_that_the_server_ended_are_replaced_before_they_are_used(
    database: Database, postgres: EmbeddedPostgres
) -> None:
    with database.tenant(TENANT) as one, database.tenant(TENANT) as other:
        before = {each.scalar(text("SELECT pg_backend_pid()")) for each in (one, other)}
    with psycopg.connect(postgres.superuser_dsn(), autocommit=True) as superuser:
        for backend in before:
            superuser.execute("SELECT pg_terminate_backend(%s, 5000)", [backend])
    for _ in range(3):
        with database.tenant(TENANT) as connection:
            assert connection.scalar(text("SELECT pg_backend_pid()")) not in before


def test_a_connection_that_ends_within_a_transaction_is_told_from_a_server_that_is_away(
    database: Database, postgres: EmbeddedPostgres
) -> None:
    # as it ends when the process was paused for longer than a transaction may wait for it
    with (
        pytest.raises(DatabaseUnavailable, match="The connection to Postgres ended: "),
        database.tenant(TENANT) as connection,
        psycopg.connect(postgres.superuser_dsn(), autocommit=True) as superuser,
    ):
        backend = connection.scalar(text("SELECT pg_backend_pid()"))
        superuser.execute("SELECT pg_terminate_backend(%s, 5000)", [backend])
        connection.execute(text("SELECT 1"))


def test_a_network_that_goes_away_without_a_word_is_noticed_in_seconds_and_not_in_hours(
    database: Database,
) -> None:
    """TCP asks an idle peer for the first time after two hours, unless it is told otherwise."""
    with database.tenant(TENANT) as connection:
        driver = connection.connection.driver_connection
        assert isinstance(driver, psycopg.Connection)
        asked = driver.info.get_parameters()
    idle, interval, count = (int(asked[f"keepalives_{name}"]) for name in ("idle", "interval", "count"))
    assert idle + interval * count == 25
    assert int(asked["tcp_user_timeout"]) == 20_000


SMALL_BUFFER = 4096
MEGABYTE = 1024 * 1024
Send = Callable[[psycopg.Connection[Any], trips.Prepared, list[trips.Statement]], Any]


def from_loop(
    driver: psycopg.Connection[Any], prepared: trips.Prepared, statements: list[trips.Statement]
) -> Any:
    return asyncio.run(trips.send_from_loop(driver, prepared, statements))


SENDS = pytest.mark.parametrize("send", [trips.send, from_loop])


@contextmanager
def connected(postgres: EmbeddedPostgres, buffer: int | None = None) -> Iterator[psycopg.Connection[Any]]:
    with closing(psycopg.connect(postgres.superuser_dsn())) as connection:
        if buffer is not None:
            ours = socket.socket(fileno=connection.fileno())
            for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
                ours.setsockopt(socket.SOL_SOCKET, option, buffer)
            ours.detach()
        yield connection


@SENDS
@pytest.mark.parametrize("buffer", [None, SMALL_BUFFER])
def test_a_text_of_any_script_and_size_goes_there_and_comes_back(
    postgres: EmbeddedPostgres, send: Send, buffer: int | None
) -> None:
    with connected(postgres, buffer) as connection:
        prepared: trips.Prepared = {}
        for script, size in product(("arabic", "emoji", "latin"), (0, 200, 70_000, MEGABYTE)):
            text = of_bytes(script, size)
            echoes: list[trips.Statement] = [("SELECT %(text)s || '', 1", {"text": text})] * 2
            assert send(connection, prepared, echoes) == (text, 1)


@SENDS
def test_an_answer_that_does_not_come_is_given_up(
    postgres: EmbeddedPostgres, send: Send, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trips, "TRIP_SECONDS", 0.2)
    with connected(postgres) as connection, pytest.raises(psycopg.OperationalError, match="timeout"):
        send(connection, {}, [("SELECT pg_sleep(%(seconds)s)", {"seconds": 30})])


def test_a_transaction_that_does_not_begin_is_given_up_and_its_connection_closed(
    postgres: EmbeddedPostgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trips, "TRIP_SECONDS", 0.2)
    with connected(postgres) as connection:
        with pytest.raises(psycopg.OperationalError, match="timeout"):
            trips.begin(connection, "SELECT pg_sleep(%s)", 30)
        assert connection.closed


@SENDS
def test_an_error_of_a_statement_is_raised_as_itself(postgres: EmbeddedPostgres, send: Send) -> None:
    with connected(postgres) as connection, pytest.raises(psycopg.errors.DivisionByZero):
        send(connection, {}, [("SELECT 1 / %(zero)s", {"zero": 0}), ("SELECT 1", {})])
