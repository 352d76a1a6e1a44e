"""The pools of connections: whoever asks next does not pay for a server that went away meanwhile."""

import socket
import sys

import psycopg
import pytest
from sqlalchemy import text

from ops.local.embedded.postgres import EmbeddedPostgres
from pipeline.store.connections.database import Database
from schemas.errors import DatabaseUnavailable
from schemas.settings import Settings
from tests.conftest import TENANT
from workers.app import make_app


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


# Until a host that went away without a word is given up: idle, then three times this long.
GIVEN_UP_SECONDS = 10 + 3 * 5


@pytest.mark.skipif(sys.platform != "linux", reason="other systems name these options otherwise")
def test_a_network_that_goes_away_without_a_word_is_noticed_in_seconds_and_not_in_hours(
    database: Database, settings: Settings
) -> None:
    """TCP asks an idle peer for the first time after two hours, unless it is told otherwise."""
    options = (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT)
    with make_app(settings) as app, app.connection_for_read() as broker:
        redis = broker.default_channel.client.connection_pool.make_connection()
        redis.connect()
        assert redis._sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        idle, interval, count = (redis._sock.getsockopt(socket.SOL_TCP, option) for option in options)
        assert idle + interval * count == GIVEN_UP_SECONDS
        redis.disconnect()
    with database.tenant(TENANT) as connection:
        driver = connection.connection.driver_connection
        assert isinstance(driver, psycopg.Connection)
        # to a server on this host there is no TCP, on which alone they count
        asked = driver.info.get_parameters()
        given = {
            name: int(asked[name]) for name in ("keepalives_idle", "keepalives_interval", "keepalives_count")
        }
        assert (
            given["keepalives_idle"] + given["keepalives_interval"] * given["keepalives_count"]
            == GIVEN_UP_SECONDS
        )
        assert int(asked["tcp_user_timeout"]) == 20_000
