"""Vectors pass between this program and Postgres as pgvector's own type, never as text."""

import sys
from array import array

import psycopg
import pytest
from pgvector import HalfVector
from sqlalchemy import Connection

from ops.local import migrate
from ops.local.embedded.postgres import EmbeddedPostgres
from pipeline.clients.deterministic import DeterministicEmbedder
from pipeline.store import vectors
from pipeline.store.connections.database import Database
from pipeline.store.connections.statements import knowing_vectors, number
from pipeline.store.search import vector_search
from pipeline.store.search.filters import Scope
from schemas.settings import Settings
from schemas.vectors import EmbeddingSpace
from tests.conftest import TENANT
from tests.harness.owner import owner_url
from tests.harness.search import write

ONE = [0.5] * 4 + [0.0] * 252
SENT = (
    "SELECT DISTINCT unnest(parameter_types)::text FROM pg_prepared_statements WHERE statement ~ 'embedding'"
)


def test_vectors_are_sent_as_half_vectors_and_read_as_they_were(database: Database) -> None:
    with database.tenant(TENANT) as connection:
        space = vectors.active_space(connection)
        assert isinstance(space, EmbeddingSpace)
        ids = write(connection, [["hello"]] * 2)
        rows = [(str(identity), b"", [ONE]) for identity in ids]
        # psycopg prepares what comes again
        for _ in range(3):
            vectors.put(connection, TENANT, "message", space.id or 0, rows)
            scope = Scope(chat_id="test:1", language="simple")
            found = vector_search.nearest(connection, scope, space, array("f", ONE), messages=2, limit=2)
        assert sorted(found.cosines) == sorted(ids)
        assert vectors.of_messages(connection, space, "test:1", ids) == dict.fromkeys(ids, ONE)
        sent = {row[0] for row in knowing_vectors(connection).execute(SENT)}
    assert {"halfvec", "halfvec[]"} <= sent
    assert "real[]" not in sent


def test_an_extension_that_is_younger_than_a_connection_is_known_to_it(
    settings: Settings, postgres: EmbeddedPostgres, database: Database, database_name: str
) -> None:
    with psycopg.connect(postgres.superuser_dsn(database_name), autocommit=True) as superuser:
        superuser.execute("DROP TABLE message_vectors, session_vectors, memory_vectors")
        superuser.execute("DROP EXTENSION vector")
        # Given a connection that is used and goes back to its pool
        with database.tenant(TENANT) as connection:
            before = backend(connection)
            (message,) = write(connection, [["hello"]])
        superuser.execute("CREATE EXTENSION vector")
    migrate.upgrade(owner_url(settings), DeterministicEmbedder().space)
    with database.tenant(TENANT) as connection:
        assert backend(connection) == before
        space = vectors.active_space(connection)
        assert space is not None
        vectors.put(connection, TENANT, "message", space.id or 0, [(str(message), b"", [ONE])])
        assert vectors.of_messages(connection, space, "test:1", [message]) == {message: ONE}


def backend(connection: Connection) -> int:
    """The server's process of a connection."""
    return number(connection, "SELECT pg_backend_pid()")


@pytest.mark.parametrize("has_numpy", [True, False])
def test_a_vector_of_a_local_model_needs_no_list(monkeypatch: pytest.MonkeyPatch, has_numpy: bool) -> None:
    if has_numpy:
        pytest.importorskip("numpy")
    else:
        monkeypatch.delitem(sys.modules, "numpy", raising=False)
    assert vectors.halved(array("f", ONE)) == HalfVector(ONE)
