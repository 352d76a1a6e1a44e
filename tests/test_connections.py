"""The pools of connections: whoever asks next does not pay for a server that went away meanwhile."""

import psycopg
from sqlalchemy import text

from ops.embedded.postgres import EmbeddedPostgres
from pipeline.store.database import Database
from tests.conftest import TENANT


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


def test_an_idle_connection_is_used_again(database: Database) -> None:
    used = set()
    for _ in range(3):
        with database.tenant(TENANT) as connection:
            used.add(connection.scalar(text("SELECT pg_backend_pid()")))
    assert len(used) == 1
