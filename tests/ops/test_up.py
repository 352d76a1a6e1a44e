"""One user, from `backscroll up --demo` to Ctrl-C, with all real processes."""

import json
import shlex
import shutil
import signal
import stat
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import psutil
import psycopg
import pytest

from ops.local.demo import QUESTIONS, WHOLE
from ops.local.embedded.postgres import EmbeddedPostgres
from tests.ops.running import Up, backscroll, clean_environment
from tests.waiting import SECONDS, until


@dataclass
class Home:
    """The folder that the user works in, and the data folder."""

    folder: Path
    data_dir: Path


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    folder = tmp_path_factory.mktemp("a user's home")
    return Home(folder, folder / "my data")


@pytest.fixture(scope="module")
def up(home: Home) -> Iterator[Up]:
    """`backscroll up --demo`, once for all stories."""
    started = Up.start(home.data_dir, home.folder, "--demo")
    yield started
    started.process.kill()
    started.process.wait(60)


def test_the_demo_imports_and_answers(up: Up) -> None:
    told = up.said()
    assert "418 new messages" in told
    assert "418 of them embedded" in told
    for question in QUESTIONS:
        # the first line below is the best, and says why; or the whole context is below
        _, _, below = told.partition(f"\n{question}\n")
        assert below.splitlines()[1].startswith("  │" if question == WHOLE else "      ↳ match 1: ")
    assert "Ondaclara" in told
    assert "Failed" not in told


@pytest.mark.skipif(not shutil.which("curl"), reason="curl is not installed")
def test_the_curl_lines_work_when_pasted(up: Up) -> None:
    lines = [line for line in up.said().splitlines() if line.startswith("curl")]
    answers = [json.loads(subprocess.check_output(["bash", "-c", line], timeout=SECONDS)) for line in lines]  # noqa: S607
    assert answers[0] == {"status": "ok"}
    assert answers[1]["status"] == "ready"
    assert answers[2]["accepted"] == 1
    assert "flower pot" in answers[3]["text"]


def test_the_lines_for_another_terminal_lead_to_what_runs(home: Home, up: Up) -> None:
    lines = up.said().split("In another terminal:\n")[1].split("Or over HTTP:")[0].strip().splitlines()
    assert lines[-1] == "backscroll chats"
    pasted = subprocess.run(
        ["bash", "-ec", "\n".join(lines)],  # noqa: S607
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS,
        cwd=home.folder,
        env=clean_environment(),
    )
    assert pasted.returncode == 0, pasted.stderr
    assert "telegram:-100420" in pasted.stdout


def test_its_metrics_can_be_scraped(home: Home, up: Up) -> None:
    url = up.find(r"Metrics +(http\S+/metrics)")
    until(lambda: 'backscroll_queue_workers{queue="embed"} 1.0' in httpx.get(url).text, "all are seen")
    assert "backscroll_postgres_up 1.0" in httpx.get(url).text
    assert "backscroll_data_free_bytes" in httpx.get(url).text


def test_the_doctor_finds_nothing_wrong(home: Home, up: Up) -> None:
    healthy = backscroll("doctor", "--model", "--json", "--data-dir", str(home.data_dir), cwd=home.folder)
    told = json.loads(healthy.stdout)
    # but that an environment of an earlier version has an older Redis
    old = [finding for finding in told["findings"] if finding["check"] == "version"]
    assert (healthy.returncode, healthy.stderr) == (5 if old else 0, "")
    assert (told["findings"], told["sent"]) == (old, ["Nothing is sent to another machine"])
    assert [version.split()[0] for version in told["versions"]] in (
        ["Postgres", "Valkey"],
        ["Postgres", "Redis"],
    )


def test_nobody_else_can_read_the_keys(home: Home, up: Up) -> None:
    for name in ("stack.json", "api-key", "flower-password", "postgres-passwords.json", "logs/api.log"):
        assert stat.S_IMODE((home.data_dir / name).stat().st_mode) == 0o600, name
    for name in ("api-key", "flower-password"):
        secret = (home.data_dir / name).read_text().strip()
        assert not any(secret in " ".join(process.cmdline()) for process in up.family())
        # what it prints goes into a file here, as into the log of a service: it names the file
        assert secret not in up.said()
        assert shlex.quote(str(home.data_dir / name)) in up.said()


def test_flower_asks_for_its_password(home: Home, up: Up) -> None:
    url, password = up.find(r"\nFlower +(\S+)"), (home.data_dir / "flower-password").read_text().strip()
    until(lambda: _status(url) == 401, "Flower asks for a password")
    assert _status(url, ("backscroll", password)) == 200


def test_all_is_started_again_when_what_forks_it_died(up: Up) -> None:
    dead = {name: up.child(name) for name in ("ingest", "api", "beat")}
    dead["api"].parent().kill()
    psutil.wait_procs(dead.values(), timeout=10)
    for name in dead:
        up.wait_for(f"{name} ended by SIGKILL")
        until(lambda: _child_of(up, name) is not None, f"another {name}")  # noqa: B023 - called at once
    door = up.find(r"HTTP API  +(\S+)")
    until(lambda: _status(f"{door}/readyz") == 200, "the HTTP API is ready again")


def test_a_redis_that_died_is_started_again(home: Home, up: Up) -> None:
    state = json.loads((home.data_dir / "redis.json").read_text())
    psutil.Process(state["pid"]).kill()
    up.wait_for("redis has ended")
    door = up.find(r"HTTP API  +(\S+)")
    until(lambda: _status(f"{door}/readyz") == 200, "the HTTP API is ready again")


def test_ctrl_c_stops_everything_soon_and_keeps_the_data(home: Home, up: Up) -> None:
    family = up.family()
    up.process.send_signal(signal.SIGINT)
    assert up.process.wait(120) == 0
    assert up.said().endswith("Stopped.\n")
    _, alive = psutil.wait_procs(family, timeout=5)
    assert not alive
    assert not (home.data_dir / "stack.json").exists()
    with (
        EmbeddedPostgres(home.data_dir) as server,
        psycopg.connect(server.superuser_dsn("backscroll")) as kept,
    ):
        told = kept.execute("SELECT count(*) FROM messages WHERE chat_id = 'telegram:-100420'").fetchone()
    assert told == (418,)


def _child_of(up: Up, word: str) -> int | None:
    try:
        return up.child(word).pid
    except (StopIteration, psutil.NoSuchProcess):
        return None


def _status(url: str, auth: tuple[str, str] | None = None) -> int:
    try:
        return httpx.get(url, auth=auth, timeout=5).status_code
    except httpx.TransportError:
        return 0
