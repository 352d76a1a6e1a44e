"""Migrations apply and revert, on an empty and on a filled database, and give the tables that the program knows."""

from alembic import command
from alembic.script import ScriptDirectory
from sqlalchemy import text

from pipeline import ingest
from pipeline.ledger import Policy
from pipeline.rules import Rules
from pipeline.store.database import Database
from schemas.messages import ChatIn
from schemas.settings import Settings
from schemas.tables import REVISION
from tests.conftest import TENANT, alembic_config, message
from tests.test_pipeline import place, run, summarizer


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
