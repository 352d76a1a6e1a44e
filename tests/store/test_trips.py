"""What is sent in one trip arrives whatever its size and script, and an answer that does not come is not waited for."""

import asyncio
import socket
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any

import psycopg
import pytest
from psycopg.sql import Literal
from psycopg.types.json import Jsonb

from ops.dev.scripts import SENTENCES
from ops.local.embedded.postgres import EmbeddedPostgres
from pipeline.store.connections import trips
from tests.scripts import of_bytes

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
@pytest.mark.parametrize("script", SENTENCES)
def test_a_text_of_any_script_and_size_goes_there_and_comes_back(
    postgres: EmbeddedPostgres, send: Send, buffer: int | None, script: str
) -> None:
    with connected(postgres, buffer) as connection:
        prepared: trips.Prepared = {}
        for size in (0, 200, 70_000, MEGABYTE):
            text = of_bytes(script, size)
            echoes: list[trips.Statement] = [("SELECT %(text)s || '', 1", {"text": text})] * 2
            assert send(connection, prepared, echoes) == (text, 1)


def test_mappings_travel_in_utf_8_and_not_three_times_as_long(postgres: EmbeddedPostgres) -> None:
    text = of_bytes("cyrillic", MEGABYTE)
    with connected(postgres) as connection:
        assert len(Literal(Jsonb([text])).as_bytes(connection)) < len(text.encode()) + 100
        found = trips.send(connection, {}, [("SELECT CAST(%(said)s AS jsonb)", {"said": Jsonb([text])})])
        assert found == ([text],)


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
@pytest.mark.parametrize(
    ("failing", "error"),
    [
        ("SELECT 1 / %(zero)s", psycopg.errors.DivisionByZero),
        ("SELECT FROM nothing WHERE %(zero)s = 0", psycopg.errors.UndefinedTable),
    ],
)
def test_an_error_of_a_statement_is_raised_as_itself(
    postgres: EmbeddedPostgres, send: Send, failing: str, error: type[psycopg.Error]
) -> None:
    with connected(postgres) as connection, pytest.raises(error):
        send(connection, {}, [(failing, {"zero": 0}), ("SELECT 1", {})])
