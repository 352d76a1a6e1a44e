"""What is said of a deployment is said of what runs there, and of no shell."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ops.local.embedded.postgres import EmbeddedPostgres
from pipeline.operations import deployment as running
from pipeline.store.operations import stats as stored
from tests.ops.conftest import Here, here
from tests.processes.conftest import Deployment, deployed

__all__ = ["here"]

ELSEWHERE = {
    "BACKSCROLL_SESSION_SUMMARY_MODEL": "small-1",
    "BACKSCROLL_OPENAI_BASE_URL": "https://me:secret@models.example.org/v1?token=secret",
    "BACKSCROLL_OPENAI_API_KEY": "sk-secret",
    "BACKSCROLL_LLM_DAILY_BUDGET": "2.5",
    # longer than a model is waited for
    "BACKSCROLL_LEASE_SECONDS": "120",
}


@pytest.fixture(scope="module")
def deployment(postgres: EmbeddedPostgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    """No worker runs yet."""
    with deployed(postgres, tmp_path_factory.mktemp("runs"), "what_runs") as made:
        yield made


def states(deployment: Deployment) -> list[stored.RunningProcess]:
    with deployment.database.tenant("") as connection:
        return list(running.Deployment.of(connection).processes)


@pytest.fixture
def command(deployment: Deployment, here: Here) -> Callable[..., dict[str, Any]]:
    """What a command says in a shell that knows of no flag and no model."""
    known = {name: value for name, value in deployment.environment.items() if name.startswith("BACKSCROLL_")}

    def called(*words: str) -> dict[str, Any]:
        told = here(*words, "--json", **{name: value for name, value in known.items() if value})
        assert told.returncode in {0, 5, 6}, told.stderr
        return {"err": told.stderr, **json.loads(told.stdout)}

    return called


def test_commands_speak_of_what_runs_and_not_of_their_own_shell(
    deployment: Deployment, command: Callable[..., dict[str, Any]]
) -> None:
    # Given a deployment that sends transcripts elsewhere
    deployment.start_workers(names=("summarize", "sweep"), **ELSEWHERE)
    deployment.until(lambda: len(states(deployment)) == 2, "both say what they run with")
    # Then the doctor of another shell says so, and how that shell differs
    said = command("doctor", "--chats", "0")
    assert [sentence.split(",")[0] for sentence in said["sent"]] == [
        "Sessions are sent to models.example.org:443"
    ] * 2
    notes = " ".join(said["settings"])
    assert "BACKSCROLL_SESSION_SUMMARY_MODEL is small-1 in worker " in notes
    assert "and extractive-v1 in this shell, which does not count" in notes
    assert "and unset in this shell" in next(
        note for note in said["settings"] if "LLM_DAILY_BUDGET is 2.5" in note
    )
    # nobody is told a secret
    kept = json.dumps([process.settings for process in states(deployment)])
    assert "secret" not in kept + json.dumps(said)
    # and a dry run speaks of that model, and of what it costs there
    planned = command("backfills", "start", "summarize", "--dry-run", "--all")
    assert planned["estimate"]["model"] == "small-1"
    assert "BACKSCROLL_SESSION_SUMMARY_MODEL is small-1" in " ".join(planned["err"].split())
    assert command("cost")["today"]["budget_cost"] == 2.5
    # When only one of them was restarted after a change, both values are said
    deployment.workers.pop("sweep").end()
    deployment.start_workers(names=("sweep",), BACKSCROLL_SESSION_SUMMARY_MODEL="small-2")
    deployment.until(lambda: len(states(deployment)) == 2, "both say what they run with")
    notes = command("doctor", "--chats", "0")["settings"]
    (models,) = (note for note in notes if "SESSION_SUMMARY_MODEL" in note)
    assert "small-2 in worker sweep" in models
    assert "small-1 in worker summarize" in models
    # When nothing runs any more, which a worker with children says too, what is said is of this shell alone
    for worker in deployment.workers.values():
        worker.end()
    deployment.start_workers(names=("ingest",))
    deployment.until(
        lambda: [process.kind for process in states(deployment)] == ["worker ingest"], "its child runs"
    )
    deployment.workers["ingest"].end()
    assert states(deployment) == []
    said = command("doctor", "--chats", "0")
    assert said["sent"] == ["Nothing would be sent to another machine"]
    assert said["settings"][0].startswith("No running HTTP API or worker says what it runs with")
