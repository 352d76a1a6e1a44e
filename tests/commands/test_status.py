"""An operator sees what is owed, how late it is, and what was given up; also while Redis is away."""

import json
import os
import pty
import signal
import subprocess
import sys

import pytest

from ops.local.processes import environment
from pipeline.operations import status
from pipeline.store.connections.database import Database
from schemas.settings import Settings
from tests.commands.conftest import SAMPLE, Run, Workers
from tests.conftest import CHECKOUT, TENANT


def test_everything_imported_is_owed_and_then_done(run: Run, workers: Workers) -> None:
    run("import", SAMPLE)
    before = run("status", "--json").json
    assert before["counts"]["messages"] == before["counts"]["waiting"] == 418
    assert before["oldest_unplaced_seconds"] >= 0
    assert {job["kind"]: job["pending"] for job in before["jobs"]} == {"ingest": 1}
    workers.finish()
    after = run("status", "--json").json
    assert after["jobs"] == []
    assert after["counts"]["waiting"] == 0
    assert after["oldest_unplaced_seconds"] is None
    assert after["counts"]["vectors"][0]["messages"] == 418
    assert after["today"]["messages_accepted"] == after["week"]["messages_accepted"] == 418
    assert after["today"]["sessions_closed"] == sum(after["counts"]["sessions"].values())


def test_without_redis_the_status_is_shown_and_says_so(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BACKSCROLL_REDIS_URL", "redis://127.0.0.1:1/0")
    shown = run("status")
    assert shown.code == 0
    assert "Redis does not answer" in shown.out
    monkeypatch.delenv("BACKSCROLL_REDIS_URL")
    assert "not set" in run("status", "--json").json["redis"]["problem"]


def test_progress_counts_only_the_chats_asked_for(run: Run, database: Database) -> None:
    run("import", SAMPLE)
    here = status.progress(database, TENANT, ["telegram:-100420"])
    assert (here.messages, here.waiting, here.pending, here.complete) == (418, 418, 1, False)
    # a page looks at the latest messages alone
    latest = status.progress(database, TENANT, ["telegram:-100420"], 100)
    assert latest.messages == 418
    assert 90 < latest.to_embed <= 100
    elsewhere = status.progress(database, TENANT, ["telegram:another"])
    assert (elsewhere.messages, elsewhere.complete) == (0, True)


def test_watching_goes_on_until_ctrl_c(settings: Settings) -> None:
    """On a terminal, and in a pipe as lines of JSON."""
    controller, terminal = pty.openpty()
    command = [sys.executable, "-m", "ops.cli", "status", "--watch"]
    given = environment(settings) | {"TERM": "xterm"}
    watched = subprocess.Popen(command, env=given, cwd=CHECKOUT, stdout=terminal, stderr=terminal)
    piped = subprocess.Popen([*command, "--json"], env=given, cwd=CHECKOUT, stdout=subprocess.PIPE)
    os.close(terminal)
    seen = b""
    while b"No jobs are pending" not in seen:
        seen += os.read(controller, 4096)
    assert piped.stdout is not None
    with piped.stdout:
        assert json.loads(piped.stdout.readline())["tenant"] == TENANT
        for process in (watched, piped):
            process.send_signal(signal.SIGINT)
    assert watched.wait(timeout=120) == 0
    assert piped.wait(timeout=120) in {0, 130}
    os.close(controller)
