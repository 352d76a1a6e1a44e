"""Walls between tenants hold in the database itself, whatever a statement forgets to say."""

import pytest
from sqlalchemy import text
from sqlalchemy.exc import ProgrammingError

from pipeline import backfill, changes, embed, ingest, users
from pipeline.backfill import Current
from pipeline.clients.deterministic import DeterministicEmbedder
from pipeline.context import build_context
from pipeline.ledger import Policy
from pipeline.memories import remember
from pipeline.rules import Rules
from pipeline.store.database import Database
from schemas.backfills import BackfillRequest
from schemas.errors import SchemaOutdated, SettingsError
from schemas.memories import MemoryIn
from schemas.messages import ChatIn
from schemas.payloads import ContextQuery
from schemas.settings import Settings
from schemas.tables import metadata
from tests.conftest import message
from tests.test_pipeline import place, run, summarizer

WALLED = sorted(name for name, table in metadata.tables.items() if "tenant_id" in table.columns)
# They hold no tenant's data: the names of models, and the number of the newest migration.
OPEN = {"embedding_spaces"}


@pytest.fixture
def two_tenants(database: Database, rules: Rules, policy: Policy) -> Database:
    for tenant in ("one", "two"):
        talk = [message(n, f"secret of {tenant}", id=f"{n}", session_key="k" * (n % 2)) for n in range(10)]
        talk[-1] = talk[-1].model_copy(update={"closes_session": True})
        ingest.accept(database, tenant, ChatIn(chat_id="test:same"), talk)
        remember(database, tenant, MemoryIn(scope="organization", content=f"secret of {tenant}"))
    place(database, rules, policy)
    run(database, "summarize", summarizer(database), policy)
    run(database, "embed", embed.embedder(database, DeterministicEmbedder()), policy)
    for tenant in ("one", "two"):
        ingest.accept(database, tenant, ChatIn(chat_id="test:same"), [message(11, "not placed yet")])
        current = Current(rules=rules, summary_version=1, min_messages=4)
        backfill.start(database, tenant, BackfillRequest(kind="embed"), current)
        changes.edit(database, tenant, "test:same", "not yet come", f"secret of {tenant}", None, rules)
        changes.delete(database, tenant, "test:same", "never comes", rules)
        users.link(database, tenant, "test:ann", "ann")
        asked = ContextQuery(chat_id="test:same", query=f"secret of {tenant}?")
        build_context(database, tenant, asked, embedder=None, settings=Settings(_env_file=None))
        with database.tenant(tenant) as connection:
            connection.execute(
                text("""
                    INSERT INTO forget_receipts (tenant_id, kind, subject, subject_hash, until)
                    VALUES (:tenant, 'tenant', '{}', '', now())
                """),
                {"tenant": tenant},
            )
    return database


def test_every_table_but_the_open_ones_belongs_to_tenants() -> None:
    assert set(metadata.tables) - set(WALLED) == OPEN


def test_every_table_is_behind_a_forced_wall(two_tenants: Database) -> None:
    for table in WALLED:
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
    for table in WALLED:
        generated = {"tenant_id", "tsv"} | (set() if table == "memories" else {"id"})
        columns = ", ".join(c.name for c in metadata.tables[table].columns if c.name not in generated)
        copied = f"INSERT INTO {table} (tenant_id, {columns}) SELECT 'two', {columns} FROM {table} LIMIT 1"
        with (
            pytest.raises(ProgrammingError, match="row-level security"),
            two_tenants.tenant("one") as connection,
        ):
            connection.execute(text(copied.replace(", )", ")").replace("'two',  FROM", "'two' FROM")))


def test_whoever_serves_all_tenants_reads_no_text(two_tenants: Database) -> None:
    for statement in (
        "content FROM messages",
        "summary_text FROM conversation_sessions",
        "content FROM memories",
    ):
        with (
            pytest.raises(ProgrammingError, match="permission denied"),
            two_tenants.maintenance() as connection,
        ):
            connection.execute(text(f"SELECT {statement}"))


def test_a_login_that_walls_do_not_hold_is_refused(
    settings: Settings, postgres: object, database_name: str
) -> None:
    database = Database(postgres.superuser_dsn(database_name))  # type: ignore[attr-defined]
    with pytest.raises(SettingsError, match="row-level security does not bind"):
        database.check()
    database.close()


def test_tables_of_another_migration_are_refused(
    database: Database, postgres: object, database_name: str
) -> None:
    import psycopg

    database.check()
    with psycopg.connect(postgres.superuser_dsn(database_name), autocommit=True) as connection:  # type: ignore[attr-defined]
        connection.execute("UPDATE alembic_version SET version_num = '0001'")
    with pytest.raises(SchemaOutdated, match="backscroll db upgrade"):
        database.check()
