"""The scripts that make the environment: they parse, and say what is missing."""

import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from ops.local import processes
from schemas.settings import Settings

CHECKOUT = Path(__file__).parents[2]
PINS = {
    canonicalize_name(name): version
    for name, version in re.findall(
        r"^([A-Za-z0-9._-]+)==(\S+)$", (CHECKOUT / "ops/constraints.txt").read_text(), re.M
    )
}


@pytest.mark.parametrize("script", ["ops/run", "ops/test", "ops/environment.sh", ".ci/run"])
def test_scripts_are_bash(script: str) -> None:
    path = CHECKOUT / script
    assert subprocess.run(["bash", "-n", path], check=False, timeout=600).returncode == 0  # noqa: S607
    assert script.endswith(".sh") or os.access(path, os.X_OK)


def test_without_a_python_the_script_says_what_to_install(tmp_path: Path) -> None:
    for tool in ("dirname", "cat", "cksum", "bash", "env"):
        (tmp_path / tool).symlink_to(shutil.which(tool) or "")
    # too old
    (tmp_path / "python3").write_text("#!/bin/sh\nexit 1\n")
    (tmp_path / "python3").chmod(0o755)
    run = subprocess.run(
        [CHECKOUT / "ops/run"],
        env={"PATH": str(tmp_path), "BACKSCROLL_VENV": str(tmp_path / "venv")},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert run.returncode == 1
    assert "needs Python 3.11" in run.stderr
    assert not (tmp_path / "venv").exists()


@pytest.mark.parametrize("script", ["ops/run", "ops/test"])
def test_help_is_given_without_installing_anything(tmp_path: Path, script: str) -> None:
    run = subprocess.run(
        [CHECKOUT / script, "--help"],
        env={**os.environ, "BACKSCROLL_VENV": str(tmp_path / "вне")},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert (run.returncode, run.stderr, script in run.stdout) == (0, "", True)
    assert list(tmp_path.iterdir()) == []


def test_an_environment_made_from_the_same_files_is_used_as_it_is(tmp_path: Path) -> None:
    venv = tmp_path / "an environment"
    (venv / "bin").mkdir(parents=True)
    (venv / "bin/python").write_text(
        '#!/bin/sh\necho "called with: $*; ${PYTHONDONTWRITEBYTECODE-compiled once}"\n'
    )
    (venv / "bin/python").chmod(0o755)
    files = b"".join((CHECKOUT / name).read_bytes() for name in ("pyproject.toml", "ops/constraints.txt"))
    checked = subprocess.run(["cksum"], input=files, capture_output=True, check=True, timeout=600)  # noqa: S607
    sum_of = checked.stdout.decode().strip()
    (venv / ".backscroll").write_text(f"{sum_of} {CHECKOUT}\nembedded,flower,local,test,tokens\n")
    run = subprocess.run(
        [CHECKOUT / "ops/run", "--light", "--exit"],
        env={**os.environ, "BACKSCROLL_VENV": str(venv), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout == (
        "Running: backscroll up --demo --light --exit\n"
        "called with: -P -m ops.cli up --demo --light --exit; compiled once\n"
    )


def test_every_requirement_is_locked_to_a_version_that_fits() -> None:
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    wanted = [*project["dependencies"], *(line for lines in extras.values() for line in lines)]
    for requirement in map(Requirement, wanted):
        version = PINS.get(canonicalize_name(requirement.name))
        assert version, f"{requirement.name} is not in constraints.txt"
        assert requirement.specifier.contains(version), f"{requirement} is locked to {version}"
    assert not [pin for pin in PINS.values() if "+" in pin]


def test_what_is_started_is_ours_and_not_the_projects(tmp_path: Path) -> None:
    for name in ("workers", "pipeline", "schemas", "ops", "migrations"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise RuntimeError('not ours')")
    settings = Settings(_env_file=None, redis_url="redis://127.0.0.1:1/0")
    beat = processes.beat_command(Path())
    told = subprocess.run(
        [*beat[: beat.index("beat")], "report"],
        cwd=tmp_path,
        env=processes.environment(settings),
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    # Celery finds our application
    assert "backscroll.sweep" in told.stdout + told.stderr
