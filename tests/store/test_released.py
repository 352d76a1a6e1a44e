"""What a released version stored is there, and answers alike, in every later version."""

import json
from pathlib import Path

import pytest
from alembic import command

from migrations import REVISION
from ops.local.embedded.postgres import EmbeddedPostgres
from pipeline.ingest.policy import SessionPolicy
from pipeline.jobs.runner import Policy
from pipeline.store.connections.database import Database
from schemas.settings import Settings
from tests.conftest import NEXT, next_release
from tests.store.released import FOLDER, VERSIONS, answers, known, load
from tests.store.test_migrations import owner_url
from tests.test_pipeline import place, rows

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
    rules: SessionPolicy,
    policy: Policy,
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
    told = answers(database, settings)
    expected = (
        "we take the plumber from Almada for 240 euros",
        "old wooden boat",
        "allergic to nuts",
        "Wednesdays",
    )
    for text, wanted in zip(told, expected, strict=True):
        assert wanted in text
    due, counts = rows(database, DUE_JOBS), rows(database, COUNTS)
    assert ("ingest", "test:house") in due
    assert 0 not in counts[0]
    # And the next version changes nothing of it
    command.upgrade(config, NEXT)
    assert answers(database, settings) == told
    assert (rows(database, DUE_JOBS), rows(database, COUNTS)) == (due, counts)
    # And what was due is done
    place(database, rules, policy)
    statement = "SELECT (SELECT count(*) FROM arrivals), count(*) FROM conversation_sessions"
    assert rows(database, statement) == [(0, 3)]
