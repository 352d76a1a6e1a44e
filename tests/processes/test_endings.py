"""A worker that cannot go on ends, so that whoever started it starts it again; one whose clock is wrong says so."""

from pathlib import Path

import psutil

from ops.dev import skewed
from ops.local import processes
from schemas.settings import Settings
from tests.processes.nodes import WorkerProcess
from tests.waiting import until


def importing(module: str, command: list[str]) -> list[str]:
    """The command of a worker that imports one module more."""
    at = command.index("worker") + 1
    return [*command[:at], "-I", f"tests.processes.{module}", *command[at:]]


def test_a_worker_whose_main_loop_failed_ends_although_closing_would_take_for_ever(
    settings: Settings, tmp_path: Path
) -> None:
    command = importing("broken", processes.worker_command(["ingest"]))
    worker = WorkerProcess("ingest", command, tmp_path, processes.environment(settings))
    try:
        until(lambda: "Unrecoverable error" in worker.logs() or not worker.runs, "it failed", 60)
        until(lambda: not worker.runs, "it has ended", 30)
        assert worker.exit_code == 1
        assert "shutdown_hung" in worker.logs()
    finally:
        worker.end()


def test_a_worker_whose_clock_differs_from_the_databases_logs_it_at_its_start(
    settings: Settings, tmp_path: Path
) -> None:
    command = [skewed.__name__ if part == "workers" else part for part in processes.worker_command(["sweep"])]
    environment = processes.environment(settings) | {skewed.SHIFT: "90"}
    worker = WorkerProcess("sweep", command, tmp_path, environment)
    try:
        until(lambda: "clock_differs" in worker.logs(), "it says so", 60)
        assert '"database_ahead_seconds": -90' in worker.logs()
    finally:
        # how one ends that is told to in its first moment is not this story's
        worker.kill("SIGKILL")
        worker.end()


def is_gone(child: psutil.Process) -> bool:
    try:
        return not child.is_running() or child.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def test_a_worker_that_is_stopped_ends_although_a_child_of_it_hangs(
    settings: Settings, tmp_path: Path
) -> None:
    command = importing("hasty", processes.worker_command(["ingest"], shutdown_seconds=1))
    worker = WorkerProcess("ingest", command, tmp_path, processes.environment(settings))
    children: list[psutil.Process] = []
    try:
        until(lambda: "ready" in worker.logs(), "it is ready", 60)
        children = psutil.Process(worker.pid).children()
        for child in children:
            child.suspend()
        worker.kill("SIGTERM")
        until(lambda: not worker.runs, "it has ended", 30)
        assert worker.exit_code == 1
        assert "shutdown_hung" in worker.logs()
        assert len(children) > 0
        # killed, but perhaps not yet reaped
        until(lambda: all(map(is_gone, children)), "its children have ended", 30)
    finally:
        worker.end()
