"""A short chaos run through the command: whatever is killed, what was accepted is remembered once."""

import json
from pathlib import Path

import psutil

from tests.ops.running import backscroll


def test_nothing_accepted_is_lost_doubled_or_stuck_whatever_is_killed(tmp_path: Path) -> None:
    before = {process.pid for process in psutil.process_iter()}
    ended = backscroll(
        *("dev", "chaos", "--messages", "400", "--kills", "4", "--seed", "5", "--json"),
        cwd=tmp_path,
        TMPDIR=str(tmp_path),
    )
    assert ended.returncode == 0, ended.stderr + ended.stdout
    told = json.loads(ended.stdout)
    assert (told["lost"], told["doubled"], told["stuck"], told["violations"]) == (0, 0, 0, [])
    assert told["accepted"] == told["stored"] > 200
    assert sum(told["kills"].values()) == 4
    assert sum(told["faults"].values()) == 2
    assert told["seconds_to_recover"]["last"] is not None
    payloads = told["payloads"]
    lost = payloads["lost_with_redis_data"] + payloads["lost_in_flight"]
    assert payloads["queued"] == payloads["stored"] + lost
    # nothing that it started lives on, and its folder is gone
    left = [p for p in psutil.process_iter(["cmdline"]) if p.pid not in before]
    assert not [p for p in left if any(str(tmp_path) in part for part in p.info["cmdline"] or [])]
    assert not list(tmp_path.glob("backscroll-chaos-*"))
