"""Walls between tenants hold in the database itself, whatever a statement forgets to say."""

import pytest
from sqlalchemy import text
from sqlalchemy.exc import ProgrammingError

from pipeline.store.connections.database import Database
from schemas.errors import SettingsError
from schemas.settings import Settings
from tests.conftest import POLICY, SESSION_POLICY
from tests.hostile.victims import fill
from tests.tables import OF_TENANTS, TABLES

# They hold no tenant's data: names of models and their providers, and the number of the newest migration.
OPEN = {"embedding_spaces", "alembic_version", "llm_providers", "llm_slots", "processes"}


def test_every_table_but_the_open_ones_belongs_to_tenants(database: Database) -> None:
    with database.tenant("") as connection:
        there = connection.execute(text("SELECT tablename FROM pg_tables WHERE schemaname = 'public'"))
        assert set(there.scalars()) == {*TABLES, "alembic_version"} == {*OF_TENANTS, *OPEN}


def test_every_table_is_behind_a_forced_wall_that_nothing_is_written_across(database: Database) -> None:
    fill(database, {"one": "secret", "two": "secret"}, SESSION_POLICY, POLICY)
    forced = text(
        "SELECT relrowsecurity AND relforcerowsecurity FROM pg_class WHERE oid = CAST(:t AS regclass)"
    )
    for table in OF_TENANTS:
        generated = {"tenant_id", "tsv"} | (set() if table == "memories" else {"id"})
        with database.tenant("one") as connection:
            assert connection.scalar(forced, {"t": table}), table
            seen = connection.execute(text(f"SELECT DISTINCT tenant_id FROM {table}")).scalars().all()
            assert seen == ["one"], table
            named = connection.execute(text(f"SELECT * FROM {table} LIMIT 0")).keys()
        with database.tenant("") as connection:
            assert connection.scalar(text(f"SELECT count(*) FROM {table}")) == 0, table
        columns = ", ".join(["tenant_id", *(name for name in named if name not in generated)])
        values = columns.replace("tenant_id", "'two'", 1)
        with (
            pytest.raises(ProgrammingError, match="row-level security"),
            database.tenant("one") as connection,
        ):
            connection.execute(text(f"INSERT INTO {table} ({columns}) SELECT {values} FROM {table} LIMIT 1"))


ATTEMPTS = (
    "ALTER TABLE messages DISABLE ROW LEVEL SECURITY",
    "SET row_security = off; SELECT content FROM messages",
    "SET ROLE backscroll_search",
    "SET ROLE backscroll_owner",
    "SET SESSION AUTHORIZATION postgres",
    "ALTER ROLE backscroll_app BYPASSRLS",
)


def test_nobody_behind_the_wall_turns_it_off(database: Database) -> None:
    for attempt in ATTEMPTS:
        with pytest.raises(ProgrammingError), database.tenant("one") as connection:
            connection.execute(text(attempt))


def test_a_login_that_walls_do_not_hold_is_refused(
    settings: Settings, postgres: object, database_name: str
) -> None:
    database = Database(postgres.superuser_dsn(database_name))  # type: ignore[attr-defined]
    with pytest.raises(SettingsError, match="row-level security does not bind"):
        database.check()
    database.close()
