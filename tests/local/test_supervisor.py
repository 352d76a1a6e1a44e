"""Children are started again when they end, and never outlive who started them."""

import os
import re
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from ops.local import supervisor
from ops.local.choices import Choices, choose_embedder
from ops.local.embedded import folder
from ops.local.supervisor import Supervisor
from pipeline.clients import factory
from schemas.errors import SettingsError
from schemas.settings import Settings
from tests.waiting import until

# ignores TERM, and has a child of its own
STUBBORN = (
    "import signal, subprocess, sys, time; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
    "print(subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(99)']).pid, flush=True);"
    "time.sleep(99)"
)


def test_a_child_that_ends_is_started_again_later_and_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "FIRST_RESTART_SECONDS", 0.05)
    said: list[str] = []
    family = Supervisor(os.environ, tmp_path, said.append)
    family.start("short", [sys.executable, "-c", "print('hello'); raise SystemExit(3)"])
    try:
        until(lambda: (family.wait(0.05), family.failed_twice("short"))[1], "it failed twice")
    finally:
        family.stop(1)
    assert "short ended with code 3" in said[0]
    assert str(tmp_path / "short.log") in said[0]
    assert (tmp_path / "short.log").read_text().count("hello") >= 2
    assert (tmp_path / "short.log").stat().st_mode & 0o077 == 0


def test_the_log_of_a_child_that_never_ends_stays_within_its_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a child that writes numbered lines, three times as many as its log may hold, and lives on
    limit, lines = 10_000, 3_000
    monkeypatch.setattr(folder, "LOG_BYTES", limit)
    program = (
        "import time\n"
        f"for n in range({lines}):\n"
        "    print(f'{n:09}', flush=True)\n"
        "    n % 100 or time.sleep(0.05)\n"
        "time.sleep(99)"
    )
    family = Supervisor(os.environ, tmp_path, lambda _: None)
    log = tmp_path / "talkative.log"
    family.start("talkative", [sys.executable, "-c", program])
    sizes, seen = [], set()

    def look() -> bool:
        family.tend()
        sizes.append(log.stat().st_size)
        for file in (log.with_suffix(".log.1"), log):
            if file.exists():
                seen.update(re.findall(r"^\d{9}$", file.read_text(), re.MULTILINE))
        return f"{lines - 1:09}" in seen

    try:
        until(look, "it has written everything")
        assert family.children[0].process is not None
        assert family.children[0].process.poll() is None
    finally:
        family.stop(1)
    assert family.children == []
    # Then both files are bounded, private, and hardly a line is missing
    kept = log.with_suffix(".log.1")
    assert max(sizes) < 2 * limit
    assert kept.stat().st_size <= 2 * limit
    assert kept.stat().st_mode & 0o077 == 0
    assert len(seen) > 0.99 * lines


def test_stopping_ends_even_what_ignores_it_with_its_own_children(tmp_path: Path) -> None:
    family = Supervisor(os.environ, tmp_path, lambda _: None)
    family.start("stubborn", [sys.executable, "-c", STUBBORN])
    log = tmp_path / "stubborn.log"
    until(lambda: log.read_text().endswith("\n"), "it runs")
    grandchild = psutil.Process(int(log.read_text()))
    family.stop(0.2)
    assert not psutil.wait_procs([grandchild], timeout=5)[1]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells children of their parent's death")
def test_no_child_outlives_a_parent_that_is_killed(tmp_path: Path) -> None:
    program = (
        "import os, sys, time; from pathlib import Path; from ops.local.supervisor import Supervisor;"
        "family = Supervisor(os.environ, Path(sys.argv[1]), print);"
        "family.start('child', [sys.executable, '-c', 'import time; time.sleep(99)']);"
        "print(family.children[0].process.pid, flush=True); time.sleep(99)"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    assert parent.stdout is not None
    with parent.stdout:
        child = psutil.Process(int(parent.stdout.readline()))
    parent.kill()
    parent.wait(60)
    assert not psutil.wait_procs([child], timeout=5)[1]


OPENAI = "openai/text-embedding-3-small/1536"
NORMAL, LIGHT = Choices(flower_port=None), Choices(flower_port=None, asked="--light")
ENGLISH = Choices(flower_port=None, asked="--english")


def chosen(wanted: Choices, active: str | None, **given: str) -> tuple[str | None, str | None]:
    settings = Settings(_env_file=None, data_dir=Path("data"), **given)
    made = choose_embedder(settings, wanted, active)
    return made.embedding_provider, made.embedding_model


@pytest.mark.parametrize(
    ("wanted", "active", "asked", "embedder"),
    [
        # new data gets the best that is installed
        (NORMAL, None, None, (factory.default_provider(), None)),
        (LIGHT, None, None, ("deterministic", "deterministic-hash-v1")),
        (ENGLISH, None, None, ("onnx", "all-MiniLM-L6-v2")),
        # data goes on with the one that it began with
        (NORMAL, "sentence-transformers/BAAI/bge-m3/1024", None, ("sentence-transformers", "BAAI/bge-m3")),
        # unless another one is asked for
        (NORMAL, OPENAI, "openai", ("openai", None)),
    ],
)
def test_the_embedder_is_the_one_that_is_asked_for_or_that_the_data_has(
    wanted: Choices, active: str | None, asked: str | None, embedder: tuple[str, str | None]
) -> None:
    assert chosen(wanted, active, **({"embedding_provider": asked} if asked else {})) == embedder


def test_what_does_not_go_with_the_data_is_refused() -> None:
    # nothing is sent to a server before a setting says so
    with pytest.raises(SettingsError, match="BACKSCROLL_EMBEDDING_PROVIDER=openai"):
        chosen(NORMAL, OPENAI, openai_api_key="sk-of-something-else")
    with pytest.raises(SettingsError, match=r"multilingual-e5-small.*--english"):
        chosen(ENGLISH, "onnx/multilingual-e5-small/384")
