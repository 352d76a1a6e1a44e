"""Walls between tenants hold in the database itself, whatever a statement forgets to say."""

import pytest
from sqlalchemy import text
from sqlalchemy.exc import ProgrammingError

from pipeline.ingest.policy import SessionPolicy
from pipeline.jobs.runner import Policy
from pipeline.store.connections.database import Database
from schemas.errors import SettingsError
from schemas.settings import Settings
from tests.hostile.victims import fill
from tests.tables import OF_TENANTS, TABLES

# They hold no tenant's data: names of models and their providers, and the number of the newest migration.
OPEN = {"embedding_spaces", "alembic_version", "llm_providers", "llm_slots"}


@pytest.fixture
def two_tenants(database: Database, rules: SessionPolicy, policy: Policy) -> Database:
    fill(database, {"one": "secret", "two": "secret"}, rules, policy)
    return database


def test_every_table_but_the_open_ones_belongs_to_tenants(database: Database) -> None:
    with database.tenant("") as connection:
        there = connection.execute(text("SELECT tablename FROM pg_tables WHERE schemaname = 'public'"))
        assert set(there.scalars()) == {*TABLES, "alembic_version"} == {*OF_TENANTS, *OPEN}


def test_every_table_is_behind_a_forced_wall(two_tenants: Database) -> None:
    for table in OF_TENANTS:
        with two_tenants.tenant("one") as connection:
            flags = connection.execute(
                text(
                    "SELECT relrowsecurity, relforcerowsecurity FROM pg_class WHERE oid = CAST(:t AS regclass)"
                ),
                {"t": table},
            ).one()
            assert tuple(flags) == (True, True), table
            seen = connection.execute(text(f"SELECT DISTINCT tenant_id FROM {table}")).scalars().all()
            assert seen == ["one"], table
        with two_tenants.tenant("") as connection:
            assert connection.scalar(text(f"SELECT count(*) FROM {table}")) == 0, table


def test_no_row_can_be_written_into_another_tenant(two_tenants: Database) -> None:
    for table in OF_TENANTS:
        generated = {"tenant_id", "tsv"} | (set() if table == "memories" else {"id"})
        with two_tenants.tenant("one") as connection:
            named = connection.execute(text(f"SELECT * FROM {table} LIMIT 0")).keys()
        columns = ", ".join(name for name in named if name not in generated)
        copied = f"INSERT INTO {table} (tenant_id, {columns}) SELECT 'two', {columns} FROM {table} LIMIT 1"
        with (
            pytest.raises(ProgrammingError, match="row-level security"),
            two_tenants.tenant("one") as connection,
        ):
            connection.execute(text(copied.replace(", )", ")").replace("'two',  FROM", "'two' FROM")))


@pytest.mark.parametrize(
    "attempt",
    [
        "ALTER TABLE messages DISABLE ROW LEVEL SECURITY",
        "SET row_security = off; SELECT content FROM messages",
        "SET ROLE backscroll_search",
        "SET ROLE backscroll_owner",
        "SET SESSION AUTHORIZATION postgres",
        "ALTER ROLE backscroll_app BYPASSRLS",
    ],
)
def test_nobody_behind_the_wall_turns_it_off(database: Database, attempt: str) -> None:
    with pytest.raises(ProgrammingError), database.tenant("one") as connection:
        connection.execute(text(attempt))


def test_a_login_that_walls_do_not_hold_is_refused(
    settings: Settings, postgres: object, database_name: str
) -> None:
    database = Database(postgres.superuser_dsn(database_name))  # type: ignore[attr-defined]
    with pytest.raises(SettingsError, match="row-level security does not bind"):
        database.check()
    database.close()
