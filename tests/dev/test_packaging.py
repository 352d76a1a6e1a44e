"""The installed package works without the developers' tools, and says where they are."""

import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

from ops.local import processes
from tests.ops.running import clean_environment


def run(installed: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-P", "-m", "ops.cli", *arguments],
        env=clean_environment(PYTHONPATH=str(installed)),
        cwd=installed.parent,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_an_installed_package_has_every_command_but_dev_which_needs_a_checkout(tmp_path: Path) -> None:
    # Given the files of the wheel, among which is nothing of ops/dev
    project = tomllib.loads((processes.ROOT / "pyproject.toml").read_text())
    wheel, installed = project["tool"]["hatch"]["build"]["targets"]["wheel"], tmp_path / "installed"
    for package in wheel["packages"]:
        shutil.copytree(processes.ROOT / package, installed / package)
    for excluded in wheel["exclude"]:
        shutil.rmtree(installed / excluded)
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
