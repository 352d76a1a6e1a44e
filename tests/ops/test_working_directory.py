"""Backscroll works in any directory, also in a project that has packages of the same names."""

import subprocess
from pathlib import Path

import pytest

from ops.local import processes
from ops.local.processes import PYTHON
from schemas.settings import Settings


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Somebody's project."""
    for name in ("workers", "pipeline", "schemas", "ops", "migrations"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise RuntimeError('not ours')")
    return tmp_path


def said(command: list[str], project: Path, settings: Settings) -> str:
    environment = processes.environment(settings)
    environment.pop("BACKSCROLL_API_KEY", None)
    done = subprocess.run(
        command, cwd=project, env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    return done.stdout + done.stderr


def test_celery_finds_our_application_and_not_the_projects(project: Path) -> None:
    settings = Settings(redis_url="redis://127.0.0.1:1/0")
    command = processes.beat_command(project)
    report = [*command[: command.index("beat")], "report"]
    assert "backscroll.sweep" in said(report, project, settings)


def test_the_door_is_ours_and_not_the_projects(project: Path) -> None:
    # it ends at once, with a reason of ours
    assert "BACKSCROLL_API_KEY is not set" in said(processes.api_command(Settings()), project, Settings())


def test_so_is_the_command_line(project: Path) -> None:
    assert "backscroll up --demo" in said([*PYTHON, "ops.cli", "--help"], project, Settings())
