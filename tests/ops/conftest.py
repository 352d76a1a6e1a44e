"""The command line in this process, for what starts no other: a process of its own takes two seconds of a core."""

import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from ops import cli
from tests.ops.running import clean_environment

Here = Callable[..., "CompletedProcess[str]"]


@pytest.fixture
def here(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> Iterator[Here]:
    """`here("up", BACKSCROLL_PORT="x")`: what `running.backscroll` gives, without the process."""

    def started(*_: object) -> None:
        raise AssertionError("it would have become another program")

    def call(*arguments: str, **settings: str) -> "CompletedProcess[str]":
        for name in set(os.environ) - set(environment := clean_environment(**settings)):
            monkeypatch.delenv(name)
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(os, "execve", started)
        monkeypatch.setattr(sys, "argv", ["backscroll", *arguments])
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            cli.main()
        said = capsys.readouterr()
        code = ended.value.code
        assert isinstance(code, int)
        return CompletedProcess(arguments, code, said.out, said.err)

    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    yield call
    for number, handler in handlers.items():
        signal.signal(number, handler)
