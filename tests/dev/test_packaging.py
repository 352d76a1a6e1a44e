"""The installed package works without the developers' tools, and says where they are."""

import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from ops.local import processes
from tests.ops.running import clean_environment


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """The folders that the wheel holds."""
    wheel = tomllib.loads((processes.ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"][
        "targets"
    ]["wheel"]
    folder = tmp_path / "installed"
    for package in wheel["packages"]:
        shutil.copytree(
            processes.ROOT / package, folder / package, ignore=shutil.ignore_patterns("__pycache__")
        )
    for excluded in wheel["exclude"]:
        shutil.rmtree(folder / excluded)
    return folder


def run(installed: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-P", "-m", "ops.cli", *arguments]
    return subprocess.run(
        command,
        env=clean_environment(PYTHONPATH=str(installed)),
        cwd=installed.parent,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_an_installed_package_has_every_command_but_dev_which_needs_a_checkout(installed: Path) -> None:
    # Given the files of the wheel, among which is nothing of ops/dev
    assert not (installed / "ops/dev").exists()
    # When its help is asked for, the tools are not offered, and everything else is
    told = run(installed, "--help")
    assert told.returncode == 0, told.stderr
    assert "import" in told.stdout
    assert " dev " not in told.stdout
    # And who asks for them is told where they are
    ended = run(installed, "dev", "bench")
    assert ended.returncode == 2
    assert "run it from a checkout" in " ".join(ended.stderr.split())
    assert " dev " in run(processes.ROOT, "--help").stdout
