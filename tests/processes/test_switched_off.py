"""A flag holds where work is done: what waits is left alone while it is off, says so, and goes on afterwards."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ops.local.embedded.postgres import EmbeddedPostgres
from pipeline.operations import deployment as running
from pipeline.store.operations import stats as stored
from tests.ops.running import backscroll
from tests.processes.conftest import Deployment, clock, deployed, talk
from tests.providers.chat_server import ChatServer
from workers import queues

CHATS = ("test:один", "test:二", "test:three")
SUMMARIZED = "SELECT count(*) FROM conversation_sessions WHERE summary_model = 'small-1'"
WAITING = "SELECT kind, attempts, claimed IS NULL FROM jobs WHERE kind IN ('summarize', 'extract') AND due_at <= now()"


@pytest.fixture(scope="module")
def server() -> Iterator[ChatServer]:
    with (server := ChatServer()).running():
        yield server


@pytest.fixture(scope="module")
def deployment(postgres: EmbeddedPostgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    """Three transcripts wait for a language model; no worker runs."""
    with deployed(postgres, tmp_path_factory.mktemp("off"), "switched_off") as made:
        for chat in CHATS:
            made.accept_and_place(chat, talk(5))
        made.make_due()
        yield made


def start(deployment: Deployment, server: ChatServer, **flags: str) -> None:
    """Start the worker of `summarize` anew, with the model's name and these flags."""
    for worker in deployment.workers.values():
        worker.end()
    named = {"SESSION_SUMMARY_MODEL": "small-1", "OPENAI_BASE_URL": server.url, "OPENAI_API_KEY": "sk-secret"}
    named |= {"LEASE_SECONDS": "120"}
    environment = {f"BACKSCROLL_{name}": value for name, value in (named | flags).items()}
    deployment.start_workers(names=("summarize", "sweep"), **environment)
    deployment.until(lambda: len(states(deployment)) == 2, "both say what they run with")


def states(deployment: Deployment) -> list[stored.RunningProcess]:
    with deployment.database.tenant("") as connection:
        return list(running.Deployment.of(connection).processes)


def command(deployment: Deployment, *words: str) -> dict[str, Any]:
    """What a command says in a shell that knows of no flag and no model."""
    known = {name: value for name, value in deployment.environment.items() if name.startswith("BACKSCROLL_")}
    known = {name: value for name, value in known.items() if value}
    # the folder has no `.env`
    told = backscroll(*words, "--json", cwd=Path(deployment.folder), **known)
    assert told.returncode in {0, 5, 6}, told.stderr
    return {"err": told.stderr, **json.loads(told.stdout)}


def sweep_and_wake(deployment: Deployment) -> None:
    """Let the clock call for wake-ups, and let workers take what else is in their queues."""
    with clock(deployment):
        swept = deployment.redis.pttl(queues.SWEPT)
        deployment.until(lambda: deployment.redis.pttl(queues.SWEPT) > swept, "a sweep")
    for kind in ("summarize", "extract", "rollup"):
        queues.wake_up(deployment.app, kind, times=3)
    deployment.until(lambda: not deployment.redis.llen(queues.SUMMARIZE.full_name), "the queue is empty")


def test_what_waits_is_left_alone_while_session_memory_is_off_and_goes_on_afterwards(
    deployment: Deployment, server: ChatServer
) -> None:
    # When the workers are started with session memory off, and are woken by the sweep and by hand
    start(deployment, server, SESSION_MEMORY_ENABLED="false")
    sweep_and_wake(deployment)
    # Then what waits is not touched, even if a shell that knows of no flag repairs what it finds
    status, said = command(deployment, "status"), command(deployment, "doctor", "--fix", "--chats", "0")
    waiting = [(row.kind, row.attempts, row[2]) for row in deployment.query(f"{WAITING} ORDER BY 1")]
    assert waiting == [("extract", 0, True)] * 3 + [("summarize", 0, True)] * 3
    # and it says so, which is no fault
    assert said["waiting"] == [
        f"3 jobs of {kind} wait, as BACKSCROLL_SESSION_MEMORY_ENABLED is off"
        for kind in ("extract", "summarize")
    ]
    assert [row["waits_for"] for row in status["jobs"] if row["kind"] == "summarize"] == [
        "BACKSCROLL_SESSION_MEMORY_ENABLED"
    ]
    assert said["mended"] == []
    assert {finding["check"] for finding in said["findings"]} <= {"worker", "late"}
    for worker in deployment.workers.values():
        worker.end()
    assert server.requests == []
    # When it is on again, all is done
    start(deployment, server)
    sweep_and_wake(deployment)
    deployment.until(lambda: deployment.query(SUMMARIZED) == [(3,)], "all is summarized")
    deployment.until(lambda: len(server.requests) >= 6, "and learned from")


def test_commands_speak_of_what_runs_and_not_of_their_own_shell(
    deployment: Deployment, server: ChatServer
) -> None:
    # Given a deployment that sends transcripts elsewhere
    server_elsewhere = ChatServer()
    server_elsewhere.url = "https://me:secret@models.example.org/v1?token=secret"
    start(deployment, server_elsewhere, LLM_DAILY_BUDGET="2.5")
    # Then the doctor of another shell says so, and how that shell differs
    said = command(deployment, "doctor", "--chats", "0")
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
    planned = command(deployment, "backfills", "start", "summarize", "--dry-run", "--all")
    assert planned["estimate"]["model"] == "small-1"
    assert "BACKSCROLL_SESSION_SUMMARY_MODEL is small-1" in " ".join(planned["err"].split())
    assert command(deployment, "cost")["today"]["budget_cost"] == 2.5
    # When only one of them was restarted after a change, both values are said
    deployment.workers.pop("sweep").end()
    deployment.start_workers(names=("sweep",), BACKSCROLL_SESSION_SUMMARY_MODEL="small-2")
    deployment.until(lambda: len(states(deployment)) == 2, "both say what they run with")
    notes = command(deployment, "doctor", "--chats", "0")["settings"]
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
    said = command(deployment, "doctor", "--chats", "0")
    assert said["sent"] == ["Nothing would be sent to another machine"]
    assert said["settings"][0].startswith("No running HTTP API or worker says what it runs with")
