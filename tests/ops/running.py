"""Runs the command line as a user does: another process, another folder, none of the caller's settings."""

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import psutil

from tests.waiting import until

SECONDS = 600
COMMAND = [sys.executable, "-m", "ops.cli"]


def clean_environment(**settings: str) -> dict[str, str]:
    """Our environment without the settings in it, and with these."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("BACKSCROLL_")}
    # rich neither colours nor cuts what goes into a pipe; tests run side by side
    return kept | {"COLUMNS": "200", "NO_COLOR": "1"} | settings


def unwatched(environment: Mapping[str, str]) -> dict[str, str]:
    """The same without coverage, under which a process that works for long takes half as long again."""
    return {name: told for name, told in environment.items() if not name.startswith("COVERAGE_")}


UNWATCHED = {("dev", "chaos"), ("dev", "eval")}
"""Commands that work for long, and that coverage would hold up."""


def backscroll(
    *arguments: str, cwd: Path, seconds: float = SECONDS, **settings: str
) -> "subprocess.CompletedProcess[str]":
    """What `backscroll ARGUMENTS` says, and its exit code."""
    environment = clean_environment(**settings)
    return subprocess.run(
        [*COMMAND, *arguments],
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
        cwd=cwd,
        env=unwatched(environment) if arguments[:2] in UNWATCHED else environment,
        stdin=subprocess.DEVNULL,
    )


@dataclass
class Up:
    """A `backscroll up` that runs, and the file that its output goes to."""

    process: "subprocess.Popen[bytes]"
    output: Path

    @classmethod
    def start(cls, data_dir: Path, cwd: Path, *options: str) -> "Up":
        """Start one on free ports, without a model, and wait until it is ready."""
        output = cwd / "up.log"
        command = [*COMMAND, "up", "--light", "--port", "0", "--data-dir", str(data_dir), *options]
        with output.open("wb") as out:
            process = subprocess.Popen(command, stdout=out, stderr=out, cwd=cwd, env=clean_environment())
        up = cls(process, output)
        up.wait_for("Ctrl-C stops everything")
        return up

    def said(self) -> str:
        """All that it has printed so far."""
        return self.output.read_text()

    def wait_for(self, text: str) -> None:
        """Wait until it has printed this."""
        until(
            lambda: text in self.said() or self.process.poll() is not None,
            f"{text!r} in {self.output}",
            SECONDS,
        )
        assert text in self.said(), self.said()

    def find(self, pattern: str) -> str:
        """The first group of a regular expression in what it has printed."""
        found = re.search(pattern, self.said())
        assert found, self.said()
        return found[1]

    def family(self) -> list[psutil.Process]:
        """Its children and theirs."""
        return psutil.Process(self.process.pid).children(recursive=True)

    def child(self, name: str) -> psutil.Process:
        """The process of this name that is nobody's pool."""
        return next(process for process in self.family() if process.name() == name != process.parent().name())
