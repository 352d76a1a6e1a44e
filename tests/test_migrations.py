"""Migrations apply and revert, on an empty and on a filled database, and give the tables that the program knows."""

import re

import psycopg
from alembic import command
from alembic.script import ScriptDirectory
from sqlalchemy import text

from pipeline import ingest
from pipeline.ledger import Policy
from pipeline.rules import Rules
from pipeline.store.database import Database
from schemas.messages import ChatIn
from schemas.revision import REVISION
from schemas.settings import Settings
from tests.conftest import CHECKOUT, TENANT, alembic_config, message
from tests.test_pipeline import place, run, summarizer

# Migrations that write a whole table anew and keep everybody waiting for it, with the reason why they may.
REWRITES: dict[str, str] = {}


def owner_url(settings: Settings) -> str:
    assert settings.owner_database_url is not None
    return settings.owner_database_url.get_secret_value()


def test_the_program_needs_the_newest_migration(settings: Settings) -> None:
    newest = ScriptDirectory.from_config(alembic_config(owner_url(settings))).get_current_head()
    assert newest == REVISION


def test_the_migrated_tables_are_those_of_the_program(settings: Settings) -> None:
    command.check(alembic_config(owner_url(settings)))


def test_every_migration_can_be_reverted_and_applied_again_on_an_empty_database(settings: Settings) -> None:
    config = alembic_config(owner_url(settings))
    command.downgrade(config, "base")
    command.upgrade(config, "head")
    command.check(config)


def test_every_migration_can_be_reverted_and_applied_again_on_a_filled_database(
    settings: Settings, database: Database, rules: Rules, policy: Policy
) -> None:
    ingest.accept(database, TENANT, ChatIn(chat_id="test:1"), [message(n) for n in range(5)])
    place(database, rules, policy)
    run(database, "summarize", summarizer(database), policy)
    config = alembic_config(owner_url(settings))
    revisions = [script.revision for script in ScriptDirectory.from_config(config).walk_revisions()]
    for _ in revisions:
        command.downgrade(config, "-1")
    command.upgrade(config, "head")
    command.check(config)
    ingest.accept(database, TENANT, ChatIn(chat_id="test:1"), [message(0)])
    with database.tenant(TENANT) as connection:
        assert connection.scalar(text("SELECT count(*) FROM messages")) == 1


def versions() -> dict[str, str]:
    """The text of each migration by its number."""
    return {path.name[:4]: path.read_text() for path in (CHECKOUT / "migrations/versions").glob("[0-9]*.py")}


def test_indexes_of_tables_that_may_be_large_are_built_beside_running_work() -> None:
    for revision, source in versions().items():
        made = set(re.findall(r"CREATE TABLE (\w+)", source))
        indexes = re.findall(r"CREATE (?:UNIQUE )?INDEX (?!CONCURRENTLY)\w+\s+ON (\w+)", source)
        assert set(indexes) <= made, (
            f"{revision}: CREATE INDEX CONCURRENTLY, in op.get_context().autocommit_block()"
        )


def test_no_migration_writes_a_table_anew(settings: Settings) -> None:
    config = alembic_config(owner_url(settings))
    command.downgrade(config, "base")
    command.upgrade(config, "0001")
    with psycopg.connect(owner_url(settings), autocommit=True) as owner:

        def files() -> dict[str, int]:
            rows = owner.execute(
                "SELECT relname, relfilenode FROM pg_class WHERE relkind = 'r' AND relowner > 16383"
            )
            return {str(name): int(file) for name, file in rows}

        for revision in sorted(versions())[1:]:
            before = files()
            command.upgrade(config, revision)
            after = files()
            anew = [table for table in before.keys() & after.keys() if before[table] != after[table]]
            assert not anew or revision in REWRITES, (revision, anew)


def test_whoever_spoke_before_chats_had_members_is_one_of_them(
    settings: Settings, database: Database
) -> None:
    for tenant in ("one", "two"):
        talk = [message(n, sender_id=f"{tenant}:{n % 3}") for n in range(6)]
        bot = message(9, sender_id="bot", role="assistant")
        ingest.accept(database, tenant, ChatIn(chat_id="test:1"), [*talk, bot])
    config = alembic_config(owner_url(settings))
    command.downgrade(config, "0004")
    command.upgrade(config, "head")
    ingest.accept(database, "one", ChatIn(chat_id="test:1"), [message(10, sender_id="one:late")])
    for tenant, late in (("one", ["one:late"]), ("two", [])):
        with database.tenant(tenant) as connection:
            found = connection.scalars(text("SELECT sender_id FROM chat_members ORDER BY 1")).all()
        assert found == [*(f"{tenant}:{n}" for n in range(3)), *late]
