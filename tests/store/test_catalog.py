"""The tables are compared with what the newest migration makes, and a committed migration stays as it is."""

import pytest
from sqlalchemy import create_engine

from ops.dev import generate
from ops.local.embedded.postgres import EmbeddedPostgres
from pipeline.store.connections.database import Database
from pipeline.store.operations import checks
from schemas.settings import Settings
from tests.commands.conftest import Run, run  # noqa: F401 - a fixture
from tests.conftest import also_partitioned
from tests.harness.doctor import as_superuser, may_mend

REPAIR = "run `backscroll dev schema`, or, where an old migration was edited, undo that and write a new one"


def differing(database: Database) -> list[str]:
    with database.unscoped() as connection:
        return [what for _, what in checks.catalog_differences(connection)]


def test_what_migrations_make_is_written_beside_them(database: Database) -> None:
    with database.unscoped() as connection:
        assert checks.catalog_lines(connection) == generate.SCHEMA.read_text().splitlines(), REPAIR


def test_a_committed_migration_is_never_edited() -> None:
    assert generate.written_checksums() == generate.checksums(), REPAIR


# What else differs is slow, or not kept apart.
NEEDED = {
    "DROP TABLE suppression_list CASCADE": "table suppression_list",
    "ALTER TABLE chats DROP COLUMN language_by": "column chats language_by text",
    "ALTER TABLE memories ALTER importance TYPE numeric": "column memories importance",
    "DROP FUNCTION words_apart(text) CASCADE": "function words_apart(text)",
}
OTHERS = {
    "DROP POLICY one_tenant ON memories": "policy memories",
    "REVOKE DELETE ON messages FROM backscroll_app": "grant messages DELETE",
    "ALTER TABLE chats ADD CONSTRAINT мало CHECK (title <> 'x')": "constraint chats",
    "DROP INDEX messages_order": "index messages",
    "CREATE OR REPLACE FUNCTION words_apart(content text) RETURNS text LANGUAGE sql IMMUTABLE RETURN content": (
        "body words_apart(text)"
    ),
}


def test_every_difference_is_named_and_whether_statements_fail_without_it(
    postgres: EmbeddedPostgres, database_name: str
) -> None:
    engine = create_engine(postgres.superuser_dsn(database_name).replace("://", "+psycopg://"))
    for damage, named in (NEEDED | OTHERS).items():
        # which is rolled back
        with engine.connect() as connection:
            connection.exec_driver_sql(damage)
            found = {what: is_needed for is_needed, what in checks.catalog_differences(connection)}
        assert any(named in what for what in found), (damage, found)
        assert any(found.values()) == (damage in NEEDED), damage
    engine.dispose()


def test_tables_that_lack_something_are_refused_by_whoever_opens_them(
    run: Run,  # noqa: F811
    settings: Settings,
    postgres: EmbeddedPostgres,
    database_name: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    as_superuser(postgres, database_name, "ALTER TABLE chats DROP COLUMN language_by")
    may_mend(settings, monkeypatch)
    for command in (("chats",), ("db", "upgrade")):
        told = run(*command)
        assert (told.code, "column chats language_by" in told.err) == (4, True), told.err
    said = run("doctor")
    assert (said.code, "column chats language_by" in said.out.replace("\n", " ")) == (6, True), said.err


@also_partitioned
def test_what_an_operator_adds_is_nobodys_business(
    database: Database, postgres: EmbeddedPostgres, database_name: str
) -> None:
    as_superuser(
        postgres,
        database_name,
        "SET ROLE backscroll_owner",
        "CREATE INDEX by_sender ON messages (sender_id)",
        "CREATE TABLE заметки (text text)",
        "GRANT SELECT ON chats TO pg_monitor",
        "RESET ROLE",
        "CREATE FUNCTION of_the_operator() RETURNS int LANGUAGE sql RETURN 1",
    )
    assert differing(database) == []
