"""The tables are made, kept up to date, and made anew by one function each."""

from pathlib import Path

import psycopg
import pytest

from migrations import REVISION, patience
from ops.local import migrate
from ops.local.embedded.postgres import EmbeddedPostgres
from pipeline.clients.deterministic import DeterministicEmbedder
from pipeline.store.connections.database import Database
from schemas.errors import DatabaseUnavailable, Retryable, SchemaOutdated
from schemas.settings import Settings
from tests.conftest import NEXT, next_release
from tests.harness.owner import owner_url

SPACE = DeterministicEmbedder().space


def test_vector_tables_are_added_when_the_extension_appears(
    settings: Settings, postgres: EmbeddedPostgres, database_name: str, database: Database
) -> None:
    with psycopg.connect(postgres.superuser_dsn(database_name), autocommit=True) as superuser:
        superuser.execute("DROP TABLE message_vectors, session_vectors, memory_vectors")
        superuser.execute("DROP EXTENSION vector")
        without = migrate.upgrade(owner_url(settings), SPACE)
        assert (without.pgvector, without.vector_tables) == (None, False)
        assert not database.has_vectors()
        superuser.execute("CREATE EXTENSION vector")
    with_vectors = migrate.upgrade(owner_url(settings), SPACE)
    assert with_vectors.vector_tables
    assert database.has_vectors()


def test_a_database_from_the_future_is_left_alone(settings: Settings) -> None:
    with psycopg.connect(owner_url(settings)) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
    for change in (migrate.upgrade, migrate.reset):
        with pytest.raises(SchemaOutdated, match=r"9999.*update the program"):
            change(owner_url(settings))


def test_a_statement_that_took_too_long_is_told_as_that(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    longer = next_release(owner_url(settings), tmp_path / "migrations", 'op.execute("SELECT pg_sleep(0.6)")')
    monkeypatch.setattr(migrate, "config", lambda _url: longer)
    with monkeypatch.context() as impatient:
        impatient.setattr(patience, "STATEMENT_SECONDS", 0.3)
        with pytest.raises(Retryable, match="canceled a statement: canceling statement") as told:
            migrate.upgrade(owner_url(settings), SPACE)
    assert not isinstance(told.value, DatabaseUnavailable)
    assert migrate.state(owner_url(settings)).found == REVISION
    assert migrate.upgrade(owner_url(settings), SPACE).found == NEXT
