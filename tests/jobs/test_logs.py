"""What a log holds by default: JSON alone, failures all, and what comes with every payload once a minute."""

import json
import subprocess
import sys
from collections import Counter
from typing import Any

import pytest

from tests.waiting import SECONDS

SCRIPT = """
import logging, sys, warnings
import structlog
from workers.logging import configure_logging
configure_logging(sys.argv[1])
log = structlog.get_logger("workers.tasks")
for number in range(1000):
    log.info("accepted", chat_id=f"test:{number}", new=1, request_id=f"r{number}")
    log.info("jobs_run", kind="embed" if number % 2 else "ingest", finished=1, failed=0)
    log.info("session_opened", session_id=number)
    log.info("session_closed", session_id=number)
log.info("jobs_run", kind="ingest", finished=0, failed=1)
log.warning("jobs_failed", kind="ingest", keys=["test:1"])
log.warning("jobs_failed", kind="ingest", keys=["test:2"])
log.info("forgotten", receipt_id=1)
warnings.warn("two\\nlines", RuntimeWarning)
beat = logging.getLogger("celery.beat")
beat.info("beat: Starting...")
beat.info("Scheduler: Sending due task %s (%s)", "sweep", "backscroll.sweep")
logging.getLogger("celery.pool").debug("TaskPool: Apply (args:%s)", "the boiler shows E4")
"""


def written(level: str) -> list[dict[str, Any]]:
    """What a process logs that has done a thousand of everything."""
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, level], capture_output=True, text=True, check=True, timeout=SECONDS
    )
    return [json.loads(line) for line in done.stderr.splitlines()]


def test_a_thousand_payloads_leave_a_few_lines_and_every_failure() -> None:
    lines = written("info")
    events = Counter((line["event"], line.get("kind"), line.get("failed")) for line in lines)
    assert events == {
        ("accepted", None, None): 1,
        ("jobs_run", "ingest", 0): 1,
        ("jobs_run", "embed", 0): 1,
        ("session_opened", None, None): 1,
        ("session_closed", None, None): 1,
        ("jobs_run", "ingest", 1): 1,
        ("jobs_failed", "ingest", None): 2,
        ("forgotten", None, None): 1,
        ("beat: Starting...", None, None): 1,
        **{(line["event"], None, None): 1 for line in lines if "two\nlines" in line["event"]},
    }


def test_at_debug_every_payload_has_its_line_without_what_is_in_it() -> None:
    lines = written("debug")
    events = Counter(line["event"] for line in lines)
    assert [events[event] for event in ("accepted", "jobs_run", "session_opened")] == [1000, 1001, 1000]
    assert lines[0]["request_id"] == "r0"
    assert "boiler" not in str(lines)


@pytest.mark.parametrize("level", ["info", "debug"])
def test_every_line_is_json_with_its_level_and_logger(level: str) -> None:
    assert all({"event", "level", "logger", "timestamp"} <= line.keys() for line in written(level))
