"""The operator changes the embedding model step by step, and is told what each step needs."""

import pytest

from pipeline.operations import spaces as operations
from pipeline.store.connections.database import Database
from schemas.settings import Settings
from tests.commands.conftest import CHAT, NEW, OLD, Run, Workers
from tests.conftest import TENANT
from tests.harness.doctor import may_mend
from tests.harness.owner import owner_of

pytestmark = pytest.mark.usefixtures("house")

MULTILINGUAL = "onnx/multilingual-e5-small/384"


@pytest.fixture
def operator(run: Run, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Run:
    """The command line of one who owns the tables."""
    may_mend(settings, monkeypatch)
    return run


@pytest.fixture
def filled(operator: Run, database: Database, settings: Settings, workers: Workers) -> None:
    """A second space, filled."""
    with owner_of(settings) as owner:
        operations.add(owner, database, [TENANT], NEW)
    assert operator("backfills", "start", "embed", "--json").code == 0
    workers.finish()


def statuses(run: Run) -> dict[str, str]:
    return {each["space"]: each["status"] for each in run("spaces", "--json").json["spaces"]}


def test_the_multilingual_model_is_added_by_that_word_and_other_prefixes_than_its_own_are_found(
    operator: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    added = operator("spaces", "add", "multilingual", "--json").json
    assert (added["space"], added["status"]) == (MULTILINGUAL, "building")
    monkeypatch.setenv("BACKSCROLL_EMBEDDING_PROVIDER", "onnx")
    monkeypatch.setenv("BACKSCROLL_EMBEDDING_MODEL", "multilingual-e5-small")
    assert "other prefixes" not in operator("doctor").out
    monkeypatch.setenv("BACKSCROLL_EMBEDDING_QUERY_PREFIX", "вопрос: ")
    assert f"the settings give {MULTILINGUAL} other prefixes" in " ".join(operator("doctor").out.split())


def test_a_space_is_compared_activated_rolled_back_and_the_old_one_retired(
    operator: Run, filled: None, running: object, database: Database
) -> None:
    found = operator("spaces", "compare", NEW.name, "--samples", 20, "--json").json
    assert found["missing"] == 0
    assert found["comparison"]["samples"] == 20
    assert 0.2 < found["comparison"]["overlap"] < 1
    # the switch, and back
    assert operator("spaces", "activate", NEW.name, "--json").json["status"] == "active"
    assert statuses(operator) == {OLD.name: "standby", NEW.name: "active"}
    # settings that name only a provider leave the model to the database
    assert "the settings name the embedder" not in operator("doctor").out
    assert operator("search", "boiler", "--json").json["degraded"] == []
    back = operator("spaces", "rollback", "--json").json
    assert (back["space"], back["missing"]) == (OLD.name, 0)
    # and for good
    operator("spaces", "activate", NEW.name)
    assert operator("spaces", "retire", OLD.name, "--yes", "--json").json["deleted"] > 400
    assert operator("spaces", "rollback").code == 3
    with database.tenant(TENANT) as connection:
        left = connection.exec_driver_sql("SELECT count(DISTINCT space_id) FROM message_vectors").scalar()
    assert left == 1


def test_what_cannot_be_is_refused_with_the_reason(operator: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    for arguments, code, told in (
        (("add", "nonsense"), 2, "PROVIDER/MODEL"),
        (("activate", "nobody/nothing"), 3, "there is no embedding space nobody/nothing"),
        (("retire", OLD.name, "--yes"), 2, "activate another space first"),
        (("rollback",), 3, "no space stands by"),
    ):
        refused = operator("spaces", *arguments)
        assert (refused.code, told in " ".join(refused.err.split())) == (code, True)
    # changes take the owner of the tables
    monkeypatch.delenv("BACKSCROLL_OWNER_DATABASE_URL", raising=False)
    refused = operator("spaces", "rollback")
    assert (refused.code, "BACKSCROLL_OWNER_DATABASE_URL" in refused.err) == (4, True)
    # looking does not
    assert operator("spaces", "--json").json["spaces"][0]["missing"] == 0


def _lose_vectors(database: Database) -> int:
    with database.tenant(TENANT) as connection:
        return connection.exec_driver_sql("DELETE FROM message_vectors WHERE mod(message_id, 2) = 0").rowcount


def test_what_is_missing_is_made_again_while_the_command_waits(
    run: Run, workers: Workers, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ops.console.rendering.WATCH_SECONDS", 0.2)
    lost = _lose_vectors(database)
    planned = run("backfills", "start", "embed", "--dry-run", "--json").json
    assert planned["missing"] == planned["would_raise"] == lost < planned["rows"]
    assert run("backfills", "list", "--json").json == {"backfills": []}
    with workers.busy():
        ended = run("backfills", "start", "embed", "--wait", "--json").json
    assert (ended["state"], ended["raised"]) == ("completed", lost)
    assert run("status", "--json").json["counts"]["vectors"][0]["messages"] == 418


def test_a_backfill_goes_through_all_its_states(run: Run, workers: Workers) -> None:
    started = run("backfills", "start", "summarize", "--all", "--chat", CHAT)
    assert "Backfill 1: summarize of telegram:-100420, running" in started.out
    assert run("backfills", "pause", 1, "--json").json["state"] == "paused"
    workers.finish()
    assert run("backfills", "status", 1, "--json").json["seen"] == 0
    assert run("backfills", "resume", 1, "--json").json["state"] == "running"
    assert run("backfills", "cancel", 1, "--json").json["state"] == "cancelled"
    refused = run("backfills", "resume", 1)
    assert refused.code == 2
    assert "cancelled" in refused.err


def test_a_backfill_with_work_given_up_ends_with_code_5(
    run: Run, workers: Workers, database: Database
) -> None:
    run("backfills", "start", "embed", "--all")
    workers.step()
    with database.maintenance() as connection:
        connection.exec_driver_sql("UPDATE jobs SET dead_at = now(), due_at = NULL WHERE kind = 'embed'")
    workers.finish()
    watched = run("backfills", "status", 1, "--watch")
    assert watched.code == 5
    assert "rows were given up" in watched.out


def test_answers_of_the_query_log_are_remembered_later(run: Run, workers: Workers, running: object) -> None:
    # Given questions, of which two were answered, one by somebody unknown
    asked = [
        run("context", question, "--chat", CHAT, *user, "--json").json["context_id"]
        for question, user in (
            ("when does the boiler get repaired?", ["--user", "telegram:11"]),
            ("what of the boiler?", []),
            ("who repairs the boiler?", ["--user", "telegram:11"]),
        )
    ]
    for context_id in asked[:2]:
        assert run("queries", "answer", context_id, "The first one.").code == 0
    # When they are remembered, and again
    planned = run("backfills", "start", "answers", "--dry-run", "--json").json
    assert (planned["rows"], planned["missing"], planned["would_raise"]) == (1, 1, 1)
    for missing in (1, 0):
        made = run("backfills", "start", "answers", "--json").json
        workers.finish()
        status = run("backfills", "status", made["id"], "--json").json
        assert (status["state"], status["seen"], status["raised"]) == ("completed", 1, missing)
    # Then each is there once, as if it had been asked for when it was reported
    listed = ("memories", "list", "--type", "qa_turn", "--json")
    (memory,) = run(*listed).json["memories"]
    assert (memory["type"], memory["user_id"]) == ("qa_turn", "telegram:11")
    assert memory["content"] == "when does the boiler get repaired?\nThe first one."
    # and what was removed does not come back
    run("memories", "rm", memory["id"])
    run("backfills", "start", "answers", "--all")
    workers.finish()
    assert run(*listed).json["memories"] == []
