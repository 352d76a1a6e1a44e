"""A short chaos run through the command: whatever is killed, what was accepted is remembered once."""

import json
import signal
import subprocess
from pathlib import Path

import psutil

from ops.exit_codes import NOT_AS_IT_SHOULD_BE
from tests.ops.running import COMMAND, backscroll, clean_environment, until


def test_nothing_accepted_is_lost_doubled_or_stuck_whatever_is_killed(tmp_path: Path) -> None:
    ended = backscroll(
        *("dev", "chaos", "--messages", "300", "--kills", "4", "--seed", "91", "--lease", "5", "--json"),
        cwd=tmp_path,
        # some 45 on two idle cores; another file's tests run beside it
        seconds=850,
        TMPDIR=str(tmp_path),
    )
    told = json.loads(ended.stdout)
    # how long things take on a machine that others use says nothing: the bound is judged by whoever runs it alone
    wrong = [violation for violation in told["violations"] if "was taken up after" not in violation]
    assert (told["lost"], told["doubled"], told["stuck"], wrong) == (0, 0, 0, []), ended.stderr
    assert ended.returncode == (NOT_AS_IT_SHOULD_BE if told["violations"] else 0)
    assert told["accepted"] - told["gone"] == told["stored"] > 100
    assert sum(told["kills"].values()) == 4
    assert sum(told["faults"].values()) == 2
    assert told["seconds_to_recover"]["taken"] > 0
    assert told["payloads"]["queued"] >= told["payloads"]["stored"]
    # a run with violations keeps its logs
    assert_nothing_is_left(tmp_path, logs=bool(told["violations"]))


def test_ctrl_c_ends_everything_that_a_run_started(tmp_path: Path) -> None:
    command = [*COMMAND, "dev", "chaos", "--messages", "400", "--kills", "4"]
    run = subprocess.Popen(
        command,
        cwd=tmp_path,
        env=clean_environment(TMPDIR=str(tmp_path)),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        until(lambda: _has_beat(run.pid) or run.poll() is not None, "beat is started")
        run.send_signal(signal.SIGINT)
        assert run.wait(30) != 0
    finally:
        run.kill()
        run.wait()
    assert_nothing_is_left(tmp_path)


def _has_beat(pid: int) -> bool:
    """Whether the run has come so far; its folder may lie on a disk that nobody else sees."""
    try:
        return any("beat" in child.cmdline() for child in psutil.Process(pid).children())
    except psutil.NoSuchProcess:
        return False


def assert_nothing_is_left(folder: Path, *, logs: bool = False) -> None:
    """No process works on the folder, and no run's data lies in it, except logs that a run with violations keeps."""
    left = [
        process.info["cmdline"]
        for process in psutil.process_iter(["cmdline", "cwd"])
        if _is_at(process, folder)
    ]
    assert left == []
    kept = list(folder.glob("backscroll-chaos-*"))
    assert [path for path in kept if "-logs-" not in path.name] == []
    assert len(kept) == logs


def _is_at(process: psutil.Process, folder: Path) -> bool:
    words = [process.info["cwd"] or "", *(process.info["cmdline"] or [])]
    return any(str(folder) in word for word in words)
