"""Migrations apply and revert, on an empty and on a filled database, and give the tables that the program knows."""

import json
import re
from pathlib import Path

import psycopg
import pytest
from alembic import command
from alembic.script import ScriptDirectory
from sqlalchemy import text

from migrations import REVISION
from ops.local.embedded.postgres import EmbeddedPostgres
from pipeline.ingest import accept
from pipeline.store.connections.database import Database
from schemas.messages import ChatIn
from schemas.settings import Settings
from tests.conftest import CHECKOUT, NEXT, TENANT, alembic_config, message, next_release
from tests.harness.owner import owner_url
from tests.harness.pipeline import place, rows, run, summarizer
from tests.store.released import FOLDER, VERSIONS, answers, known, load

# Migrations that write a whole table anew and keep everybody waiting for it, with the reason why they may.
REWRITES: dict[str, str] = {}


def test_every_migration_can_be_reverted_and_applied_again_on_a_filled_database(
    settings: Settings, database: Database
) -> None:
    accept.accept(database, TENANT, ChatIn(chat_id="test:1"), [message(n) for n in range(5)])
    place(database)
    run(database, "summarize", summarizer(database))
    config = alembic_config(owner_url(settings))
    revisions = [script.revision for script in ScriptDirectory.from_config(config).walk_revisions()]
    assert revisions[0] == REVISION
    for _ in revisions:
        command.downgrade(config, "-1")
    command.upgrade(config, "head")
    accept.accept(database, TENANT, ChatIn(chat_id="test:1"), [message(0)])
    with database.tenant(TENANT) as connection:
        assert connection.scalar(text("SELECT count(*) FROM messages")) == 1


BUILDS = """
op.execute("ALTER TABLE messages ADD COLUMN IF NOT EXISTS mood text")
with concurrently():
    build("messages_first", "messages (tenant_id, sender_id)")
    build("messages_second", "messages (tenant_id, chat_id, sent_at)")
"""


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
    first, *later = sorted(versions())
    command.downgrade(config, "base")
    command.upgrade(config, first)
    with psycopg.connect(owner_url(settings), autocommit=True) as owner:

        def files() -> dict[str, int]:
            rows = owner.execute(
                "SELECT relname, relfilenode FROM pg_class WHERE relkind = 'r' AND relowner > 16383"
            )
            return {str(name): int(file) for name, file in rows}

        for revision in later:
            before = files()
            command.upgrade(config, revision)
            after = files()
            anew = [table for table in before.keys() & after.keys() if before[table] != after[table]]
            assert not anew or revision in REWRITES, (revision, anew)


def test_an_index_that_stands_is_kept_and_one_that_an_interrupted_build_left_is_replaced(
    settings: Settings, postgres: EmbeddedPostgres, database_name: str, tmp_path: Path
) -> None:
    config = next_release(owner_url(settings), tmp_path / "migrations", BUILDS)
    with psycopg.connect(postgres.superuser_dsn(database_name), autocommit=True) as superuser:

        def indexes() -> dict[str, tuple[int, bool]]:
            rows = superuser.execute(
                "SELECT relname, oid::bigint, indisvalid FROM pg_class JOIN pg_index ON indexrelid = oid "
                "WHERE relname IN ('messages_first', 'messages_second')"
            )
            return {str(name): (oid, valid) for name, oid, valid in rows}

        # Given that building the first was interrupted, the second done
        superuser.execute("SET ROLE backscroll_owner")
        superuser.execute("CREATE INDEX messages_first ON messages (tenant_id)")
        superuser.execute("CREATE INDEX messages_second ON messages (tenant_id, chat_id, sent_at)")
        superuser.execute("RESET ROLE")
        superuser.execute(
            "UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'messages_first'::regclass"
        )
        before = indexes()
        command.upgrade(config, "head")
        after = indexes()
    assert after["messages_second"] == before["messages_second"]
    assert after["messages_first"][0] != before["messages_first"][0]
    assert after["messages_first"][1]


CHANGES = """
op.execute("ALTER TABLE messages ADD COLUMN mood text")
op.execute("ALTER TABLE memories ADD COLUMN mood text NOT NULL DEFAULT ''")
with concurrently():
    build("messages_mood", "messages (tenant_id, mood) WHERE mood IS NOT NULL")
"""
DUE_JOBS = "SELECT kind, key FROM jobs WHERE due_at IS NOT NULL ORDER BY 1, 2"
COUNTS = """
    SELECT (SELECT count(*) FROM message_vectors), (SELECT count(*) FROM session_vectors),
        (SELECT count(*) FROM memory_vectors), (SELECT count(*) FROM arrivals)
"""


@pytest.mark.parametrize("version", VERSIONS)
def test_a_database_of_a_released_version_is_upgraded_without_a_loss_and_answers_as_before(
    version: str,
    settings: Settings,
    database: Database,
    postgres: EmbeddedPostgres,
    database_name: str,
    tmp_path: Path,
) -> None:
    # Given messages, vectors, memories and due jobs, as that version stored them
    recorded = json.loads((FOLDER / f"{version}.json").read_text())
    config = next_release(owner_url(settings), tmp_path / "migrations", CHANGES)
    command.downgrade(config, "base")
    command.upgrade(config, version)
    load(postgres.superuser_dsn(database_name), version)
    # When they are upgraded to this version
    command.upgrade(config, REVISION)
    # Then all that was known is known, and found
    for before, after in zip(recorded["known"], known(database), strict=True):
        assert after.items() >= before.items()
    expected = (
        "we take the plumber from Almada for 240 euros",
        "old wooden boat",
        "allergic to nuts",
        "Wednesdays",
    )
    told = answers(database, settings)
    for answer, wanted in zip(told, expected, strict=True):
        assert wanted in answer
    due, counts = rows(database, DUE_JOBS), rows(database, COUNTS)
    assert ("ingest", "test:house") in due
    assert 0 not in counts[0]
    # And the next version changes nothing of it
    command.upgrade(config, NEXT)
    assert answers(database, settings) == told
    assert (rows(database, DUE_JOBS), rows(database, COUNTS)) == (due, counts)
    # And what was due is done
    place(database)
    statement = "SELECT (SELECT count(*) FROM arrivals), count(*) FROM conversation_sessions"
    assert rows(database, statement) == [(0, 3)]
