"""Backscroll works in any directory, also in a project that has packages of the same names."""

import subprocess
from pathlib import Path

import pytest

from ops.local import processes
from schemas.settings import Settings

SETTINGS = Settings(_env_file=None, redis_url="redis://127.0.0.1:1/0")
BEAT = processes.beat_command(Path())
COMMANDS = {
    # Celery finds our application
    "backscroll.sweep": [*BEAT[: BEAT.index("beat")], "report"],
    # the HTTP API ends at once, with a reason of ours
    "BACKSCROLL_API_KEY is not set": processes.api_command(SETTINGS),
}


@pytest.mark.parametrize("told", COMMANDS)
def test_what_is_started_is_ours_and_not_the_projects(tmp_path: Path, told: str) -> None:
    for name in ("workers", "pipeline", "schemas", "ops", "migrations"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise RuntimeError('not ours')")
    environment = processes.environment(SETTINGS)
    environment.pop("BACKSCROLL_API_KEY", None)
    done = subprocess.run(
        COMMANDS[told],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert told in done.stdout + done.stderr
