"""An operator sees what was given up and why, has it done again, or gives it up for good."""

import io

import pytest
from sqlalchemy import text

from pipeline.ingest.accept import accept
from pipeline.jobs import runner
from pipeline.store.connections.database import Database
from schemas.messages import ChatIn
from schemas.settings import Settings
from tests.commands.conftest import Run, Workers, talk
from tests.conftest import POLICY, TENANT, message
from tests.harness.jobs import kill, pass_time
from tests.harness.pipeline import rows
from tests.harness.refusals import as_owner, refuse

CHAT = "test:1"


def statuses(database: Database) -> list[tuple[object, ...]]:
    with database.tenant(TENANT) as connection:
        found = connection.execute(
            text("SELECT status, failure_reason FROM conversation_sessions ORDER BY id")
        )
        return [tuple(row) for row in found]


@pytest.fixture
def dead_summary(database: Database, settings: Settings, workers: Workers) -> str:
    """The key of a session whose summary was given up."""
    talk(database)
    workers.finish("ingest")
    kill(database, "summarize")
    with database.tenant(TENANT) as connection:
        return f"session:{connection.scalar(text('SELECT id FROM conversation_sessions'))}"


def test_what_was_given_up_shows_its_error_its_tries_and_its_request(run: Run, dead_summary: str) -> None:
    (item,) = run("jobs", "list", "--json").json["jobs"]
    assert (item["kind"], item["key"], item["state"]) == ("summarize", dead_summary, "dead")
    assert (item["attempts"], item["error"]) == (3, "ValueError: model fell over")
    assert item["trace_id"] == "request-1"
    one = run("jobs", "show", "summarize", dead_summary)
    for expected in (CHAT, "ValueError: model fell over", f"jobs replay summarize {dead_summary}"):
        assert expected in one.out


def test_what_is_replayed_is_done_by_the_workers(
    run: Run, dead_summary: str, workers: Workers, database: Database
) -> None:
    assert statuses(database) == [("closed", None)]
    done = run("jobs", "replay", "summarize", dead_summary, "--json").json
    assert [item["key"] for item in done["replayed"]] == [dead_summary]
    workers.finish()
    assert statuses(database) == [("summarized", None)]
    assert run("jobs", "list", "--json").json["total"] == 0
    assert run("jobs", "show", "summarize", dead_summary).code == 3


def test_a_message_that_stands_aside_is_listed_and_placed_once_it_is_released(
    run: Run, workers: Workers, database: Database, settings: Settings
) -> None:
    refuse(settings)
    given = [message(n, sender_name="Mallory" if n == 2 else "Ann") for n in range(5)]
    accept(database, TENANT, ChatIn(chat_id=CHAT), given, trace_id="request-2")
    for _ in range(3):
        workers.finish()
        pass_time(database)
    (item,) = run("jobs", "list", "--kind", "arrival", "--json").json["jobs"]
    assert "no session may be made of this" in item["error"]
    assert (item["trace_id"], item["attempts"]) == ("request-2", None)
    assert "1 messages cannot be placed" in run("status").out
    refused = run("jobs", "drop", "arrival", item["key"], "--yes")
    assert (refused.code, "cannot be dropped" in refused.err) == (2, True)
    as_owner(settings, "DROP TRIGGER refuse ON conversation_sessions")
    assert run("jobs", "replay", "arrival", item["key"]).code == 0
    workers.finish()
    assert run("jobs", "list", "--json").json["total"] == 0
    assert rows(database, "SELECT sum(message_count) FROM conversation_sessions") == [(5,)]


def test_what_is_dropped_is_owed_no_more_and_its_session_says_so(
    run: Run, dead_summary: str, workers: Workers, database: Database
) -> None:
    assert run("jobs", "drop", "summarize", dead_summary, "--yes").code == 0
    workers.finish()
    assert statuses(database) == [("failed", "dropped by an operator")]
    assert run("jobs", "list", "--json").json["total"] == 0
    talk(database, count=8)  # two messages more: it is owed again
    workers.finish()
    assert statuses(database) == [("summarized", None)]


def test_many_are_chosen_by_kind_error_and_age(run: Run, database: Database, workers: Workers) -> None:
    talk(database)
    workers.finish("ingest")
    kill(database, "summarize")
    kill(database, "embed")
    assert run("jobs", "list", "--kind", "embed", "--json").json["total"] == 6
    assert run("jobs", "list", "--error", "FELL over", "--json").json["total"] == 7
    assert run("jobs", "list", "--error", "timed out", "--json").json["total"] == 0
    assert run("jobs", "list", "--older-than", "1h", "--json").json["total"] == 0
    dropped = run("jobs", "drop", "--all", "--kind", "embed", "--error", "fell", "--yes", "--json").json
    assert (len(dropped["dropped"]), dropped["left"]) == (6, [])
    replayed = run("jobs", "replay", "--all", "--yes", "--json").json
    assert [item["kind"] for item in replayed["replayed"]] == ["summarize"]


def test_nothing_is_replayed_or_dropped_by_accident(
    run: Run, dead_summary: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("n\n\n"))
    for arguments in ([], ["summarize"], ["summarize", dead_summary, "--all"], ["--kind", "summarize"]):
        refused = run("jobs", "drop", *arguments, "--yes")
        assert (refused.code, "say which job" in refused.err) == (2, True), arguments
    for command in ("replay", "drop"):
        assert run("jobs", command, "--all").code == 1  # nobody says yes
    assert run("jobs", "replay", "summarize", "session:0").code == 3
    assert run("jobs", "list", "--json").json["total"] == 1


def test_work_that_is_being_done_is_left_to_its_worker(run: Run, database: Database) -> None:
    talk(database)

    def handle(tenant: str, claims: object) -> set[str]:
        assert run("jobs", "list", "--state", "running", "--json").json["total"] == 1
        left = run("jobs", "replay", "ingest", CHAT, "--json").json
        assert (left["replayed"], len(left["left"])) == ([], 1)
        raise ValueError("and then it failed")

    runner.run(database, "ingest", handle, POLICY)
    (item,) = run("jobs", "list", "--state", "retrying", "--json").json["jobs"]
    assert item["attempts"] == 1


def test_a_tenant_sees_and_mends_its_own_work_alone(
    run: Run, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    for tenant in (TENANT, "neighbour"):
        talk(database, tenant=tenant)
    kill(database, "ingest")
    assert run("jobs", "list", "--json").json["total"] == 2
    unclear = run("jobs", "replay", "ingest", CHAT)
    assert (unclear.code, "say whose: --tenant" in unclear.err) == (2, True)
    monkeypatch.delenv("BACKSCROLL_MAINTENANCE_DATABASE_URL")
    assert [item["tenant_id"] for item in run("jobs", "list", "--json").json["jobs"]] == [TENANT]
    assert len(run("jobs", "replay", "--all", "--yes", "--json").json["replayed"]) == 1
    (left,) = run("jobs", "list", "--tenant", "neighbour", "--json").json["jobs"]
    assert left["state"] == "dead"
