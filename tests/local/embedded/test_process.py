"""Stories about processes and locks: what must end ends, and one lock has one holder."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ops.local.embedded import folder, process
from ops.local.embedded.folder import is_taken, open_lock, take
from ops.local.embedded.redis import EmbeddedRedis
from ops.local.embedded.server import ServerFailed

STUBBORN = (
    "import signal, subprocess, sys, time; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
    "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(99)']);"
    "print(child.pid, flush=True); time.sleep(99)"
)


def runs(pid: int) -> bool:
    """Whether the process is there, and not only waits to be reaped by whoever inherited it."""
    try:
        return " Z " not in Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False


def test_a_process_that_does_not_listen_is_killed_with_its_children() -> None:
    with subprocess.Popen([sys.executable, "-c", STUBBORN], stdout=subprocess.PIPE) as stubborn:
        assert stubborn.stdout is not None
        grandchild = int(stubborn.stdout.readline())
        began = time.monotonic()
        process.end(stubborn, [signal.SIGTERM], patience=0.3)
        assert time.monotonic() - began < 5
        assert stubborn.returncode == -signal.SIGKILL
    while runs(grandchild):
        assert time.monotonic() - began < 5
        time.sleep(0.01)


def test_a_lock_has_one_holder_until_the_last_heir_is_gone(tmp_path: Path) -> None:
    path = tmp_path / "some.lock"
    assert not is_taken(path)
    mine, others = open_lock(path), open_lock(path)
    assert take(mine)
    assert not take(others)
    heir = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(99)"], pass_fds=[mine])
    os.close(mine)
    assert is_taken(path)
    heir.kill()
    heir.wait()
    assert not is_taken(path)
    assert take(others)
    os.close(others)


def test_a_server_that_holds_the_lock_and_never_answers_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(EmbeddedRedis, "start_seconds", 0.2)
    held = open_lock(tmp_path / "redis.lock")
    assert take(held)
    with pytest.raises(ServerFailed, match=r"Another embedded redis holds .*redis\.lock"):
        EmbeddedRedis(tmp_path).start()
    os.close(held)


def test_a_log_that_grew_long_begins_anew_and_the_old_one_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folder, "LOG_BYTES", 100)
    for _ in range(2):
        with EmbeddedRedis(tmp_path) as running:
            assert "bye bye" not in running.log_path.read_text()
    assert "bye bye" in (tmp_path / "redis.log.1").read_text()
