"""A short chaos run through the command: whatever is killed, what was accepted is remembered once."""

import json
from pathlib import Path

import psutil

from ops.exit_codes import NOT_AS_IT_SHOULD_BE
from tests.ops.running import backscroll


def test_nothing_accepted_is_lost_doubled_or_stuck_whatever_is_killed(tmp_path: Path) -> None:
    ended = backscroll(
        *("dev", "chaos", "--messages", "240", "--kills", "2", "--seed", "91", "--lease", "5", "--json"),
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
    assert sum(told["kills"].values()) == 2
    assert sum(told["faults"].values()) == 1
    # 0: whoever was killed held no job
    assert told["seconds_to_recover"]["taken"] >= 0
    assert told["payloads"]["queued"] >= told["payloads"]["stored"]
    # no process works on its folder, and nothing lies there but the logs that a run with violations keeps
    left = [p.info["cmdline"] for p in psutil.process_iter(["cmdline", "cwd"]) if _is_at(p, tmp_path)]
    assert left == []
    kept = [path.name for path in tmp_path.glob("backscroll-chaos-*")]
    assert [name for name in kept if "-logs-" not in name] == []
    assert len(kept) == bool(told["violations"])


def _is_at(process: psutil.Process, folder: Path) -> bool:
    words = [process.info["cwd"] or "", *(process.info["cmdline"] or [])]
    return any(str(folder) in word for word in words)
