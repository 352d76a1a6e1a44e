"""Children are started again when they end, and never outlive who started them."""

import os
import re
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import psutil
import pytest

from ops.local import supervisor
from ops.local.embedded import folder
from ops.local.embedded.redis import EmbeddedRedis
from ops.local.launch import Choices, beats, choose_embedder
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


def test_a_child_that_ends_again_and_again_is_said_twice_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "FIRST_RESTART_SECONDS", 0.01)
    monkeypatch.setattr(supervisor, "LAST_RESTART_SECONDS", 0.02)
    # Given one that cannot listen on its port, and says more after that
    program = (
        """import sys; print('{"event": "port 8422 is taken", "level": "error"}');"""
        """print('{"event": "bye", "level": "info"}'); sys.exit(3)"""
    )
    said: list[str] = []
    family = Supervisor(os.environ, tmp_path, said.append)
    family.start("short", [sys.executable, "-c", program])
    child = family.children[0]
    until(lambda: (family.wait(0.05), child.failures > 5)[1], "it failed often")
    # Then people hear of the first end, and that it goes on; and it can be looked up
    assert [line.partition(" (")[0] for line in said] == ["short ended with code 3: port 8422 is taken"] * 2
    assert "not said again" in said[1]
    assert family.failing()["short"].startswith(
        "short ended with code 3: port 8422 is taken, again and again"
    )
    # until it runs for long
    child.command = [sys.executable, "-c", "import time; time.sleep(99)"]
    until(
        lambda: (family.wait(0.05), child.process)[1].args == child.command,
        "it runs, and not the one before it",
    )
    monkeypatch.setattr(supervisor, "STEADY_SECONDS", 0.0)
    until(lambda: (family.wait(0.05), family.failing() == {})[1], "it runs for long")
    assert said[2:] == ["short runs again"]
    family.stop(1)


def test_what_cannot_be_started_now_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "FIRST_RESTART_SECONDS", 0.05)
    said: list[str] = []
    family = Supervisor(os.environ, tmp_path, said.append)
    child = family.start("gone", [str(tmp_path / "program")])
    family.wait(0.2)
    assert "gone did not start: [Errno 2] No such file or directory" in said[0]
    child.command = [sys.executable, "-c", "import time; time.sleep(99)"]
    until(lambda: (family.wait(0.05), child.pid)[1] is not None, "it runs")
    family.stop(1)


@pytest.mark.skipif(sys.platform != "linux", reason="only /proc tells that a process was stopped")
@pytest.mark.parametrize("whose", ["its own", "its child's"])
def test_a_frozen_process_is_killed_and_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, whose: str
) -> None:
    monkeypatch.setattr(supervisor, "CHECK_SECONDS", 0.01)
    said: list[str] = []
    family = Supervisor(os.environ, tmp_path, said.append)
    family.start("worker", [sys.executable, "-c", STUBBORN])
    log = tmp_path / "worker.log"
    until(lambda: log.read_text().endswith("\n"), "it runs")
    first = family.children[0].pid
    assert first
    os.kill(first if whose == "its own" else int(log.read_text()), signal.SIGSTOP)
    until(lambda: (family.wait(0.05), family.children[0].pid)[1] not in (None, first), "another one runs")
    family.stop(0)
    assert said[0].startswith("worker was stopped by a signal, and killed")


def test_one_that_gives_no_sign_of_life_any_more_is_killed_and_a_busy_one_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "CHECK_SECONDS", 0.0)
    monkeypatch.setattr(supervisor, "SILENT_CHECKS", 5)
    signs = dict.fromkeys(("busy", "starting", "hung"), False)
    said: list[str] = []
    family = Supervisor(os.environ, tmp_path, said.append)
    for name in signs:
        family.start(name, [sys.executable, "-c", "while True: pass"]).lives = partial(signs.get, name)  # type: ignore[assignment]
    signs |= {"busy": True, "hung": True}
    family.tend()
    signs["hung"] = False
    until(lambda: (family.tend(), said)[1], "one was killed")
    # whoever is slow to start has yet to give its first sign, and pauses are no silence
    signs["busy"] = False
    for _ in range(4):
        family.tend()
    signs["busy"] = True
    family.wait(0.2)
    family.stop(0)
    assert [line.split()[:2] for line in said] == [["hung", "hung"]]


def test_a_worker_is_not_judged_by_its_heartbeat_while_redis_is_away(
    tmp_path: Path, redis: EmbeddedRedis
) -> None:
    heartbeat = tmp_path / "worker.heartbeat"
    here, away = (
        Settings(_env_file=None, redis_url=url)  # type: ignore[arg-type]
        for url in (redis.url, "redis://127.0.0.1:1/0")
    )
    assert not beats(heartbeat, here)
    heartbeat.touch()
    assert beats(heartbeat, here)
    # once for each touch
    assert not beats(heartbeat, here)
    assert beats(heartbeat, away)


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
NORMAL, LIGHT = Choices(), Choices(asked="--light")
ENGLISH = Choices(asked="--english")


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
