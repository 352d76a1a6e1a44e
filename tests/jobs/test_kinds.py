"""A kind of job is named wherever it must be: its queue, task, worker service, documentation and erasure."""

import re

import pytest
from celery import Celery
from sqlalchemy import text

from pipeline.store.connections.database import Database
from pipeline.store.jobs import jobs
from schemas.kinds import BACKFILL, EMBED, EXTRACT, FORGET, INGEST, KINDS, ROLLUP, SUMMARIZE, Kind
from schemas.people import Subject
from schemas.settings import Settings
from tests.conftest import CHECKOUT, TENANT, Templates
from tests.harness.forgetting import GROUP, fill, forgotten
from tests.harness.pipeline import rows
from workers.app import make_app
from workers.queues import OF_KIND, QUEUES
from workers.resources import HANDLERS

# The keys of a job of each kind that forgetting a tenant must delete.
KEYS = {
    INGEST.name: f"'{GROUP.chat_id}'",
    "language": f"'{GROUP.chat_id}'",
    EMBED.name: "(SELECT 'message:' || max(id) FROM messages)",
    SUMMARIZE.name: "(SELECT 'session:' || max(id) FROM conversation_sessions)",
    ROLLUP.name: f"'2026-03-02:{GROUP.chat_id}'",
    EXTRACT.name: "(SELECT 'memory:' || max(id::text) FROM memories)",
    BACKFILL.name: "'1'",
    "digest": "'1'",
    # the job that forgets the tenant itself
    FORGET.name: "NULL",
}


@pytest.fixture
def app(settings: Settings) -> Celery:
    made = make_app(settings)
    made.loader.import_default_modules()
    return made


def missing(kind: Kind, app: Celery) -> list[str]:
    """What does not know this kind."""
    compose = (CHECKOUT / "compose.yaml").read_text()
    known = {
        "a queue in workers/queues.py": kind.queue in QUEUES,
        "a handler in workers/resources.py": kind.name in HANDLERS,
        "a task in workers/tasks": f"backscroll.{kind}" in app.tasks,
        "a worker in compose.yaml": kind.queue
        in re.findall(r"command: \[backscroll, worker, (\w+)\]", compose),
        "what erases its jobs": kind.name in KEYS,
    }
    return [what for what, is_known in known.items() if not is_known]


def test_every_kind_is_known_to_all_that_must_know_it(app: Celery) -> None:
    assert {name: missing(kind, app) for name, kind in KINDS.items()} == {name: [] for name in KINDS}
    assert {name: queue.name for name, queue in OF_KIND.items()} == {k.name: k.queue for k in KINDS.values()}


@pytest.fixture
def template(templates: Templates) -> str:
    return templates("kinds_remembered", fill)


def test_forgetting_a_tenant_deletes_its_jobs_of_every_kind(database: Database) -> None:
    with database.tenant(TENANT) as connection:
        for kind in KINDS:
            key = connection.scalar(text(f"SELECT {KEYS[kind]}"))
            jobs.enqueue(connection, TENANT, kind, [key] if key else [], delay_seconds=60)
    forgotten(database, Subject(kind="tenant"))
    assert rows(database, "SELECT kind, key FROM jobs") == []
