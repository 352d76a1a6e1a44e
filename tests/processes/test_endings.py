"""A worker that cannot go on ends, so that whoever started it starts it again."""

from pathlib import Path

from ops.local import processes
from schemas.settings import Settings
from tests.ops.running import until
from tests.processes.nodes import Process
from workers.signals import CLOSING_SECONDS


def test_a_worker_whose_main_loop_failed_ends_although_closing_would_take_for_ever(
    settings: Settings, tmp_path: Path
) -> None:
    command = processes.worker_command(["ingest"])
    at = command.index("worker") + 1
    command[at:at] = ["-I", "tests.processes.broken"]
    worker = Process("ingest", command, tmp_path, processes.environment(settings))
    try:
        until(lambda: b"Unrecoverable error" in worker.logs() or worker.status != "running", "it failed", 60)
        until(lambda: worker.status != "running", "it has ended", CLOSING_SECONDS + 30)
        assert worker.exit_code == 1
        assert b"shutdown_hung" in worker.logs()
    finally:
        worker.end()
