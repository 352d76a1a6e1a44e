"""What `backscroll` says when it cannot do what it was asked: one message that helps, and an exit code."""

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from ops import cli
from tests.ops.conftest import Here
from tests.ops.running import COMMAND, clean_environment, unwatched
from tests.waiting import SECONDS

NOWHERE = "postgresql://backscroll_app:secret@127.0.0.1:1/backscroll"


def test_a_wrong_setting_is_named_with_its_value(here: Here) -> None:
    told = here("up", BACKSCROLL_SESSION_GAP_MINUTES="soon")
    assert told.returncode == 4
    assert "BACKSCROLL_SESSION_GAP_MINUTES='soon'" in told.stderr
    assert "Traceback" not in told.stderr


def test_a_setting_that_is_none_is_named_with_the_nearest(here: Here, tmp_path: Path) -> None:
    told = here("chats", BACKSCROLL_PROT="12")
    assert told.returncode == 4
    assert "BACKSCROLL_PROT in the environment is no setting; did you mean BACKSCROLL_PORT?" in told.stderr
    # what compose and the scripts read is ours, too
    (tmp_path / ".env").write_text("BACKSCROLL_BACKUP_PASSWORD=x\nbackscroll_tennant=a\nOTHER_THING=1\n")
    told = here("chats", BACKSCROLL_VENV="x")
    assert told.returncode == 4
    assert "backscroll_tennant in .env is no setting; did you mean BACKSCROLL_TENANT?" in told.stderr
    assert "BACKUP" not in told.stderr


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("REDIS_URL", "redis://:secret@127.0.0.1:6379/foo", "must look like redis://"),
        ("API_KEY", "secret\r", "printable ASCII"),
        ("CONTEXT_BUDGET_TOKENS", "200001", "less than or equal to 200000"),
    ],
)
def test_a_setting_that_nothing_could_be_done_with_is_refused_at_the_start(
    here: Here, name: str, value: str, allowed: str
) -> None:
    told = here("status", **{f"BACKSCROLL_{name}": value})
    assert told.returncode == 4
    assert f"BACKSCROLL_{name}" in told.stderr
    assert allowed in told.stderr
    assert "secret" not in told.stderr
    assert "Traceback" not in told.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no disk that is always full")
def test_a_full_disk_is_no_defect_of_ours(tmp_path: Path) -> None:
    with Path("/dev/full").open("w") as full:
        told = subprocess.run(
            [*COMMAND, "--help"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            cwd=tmp_path,
            env=clean_environment(),
            timeout=600,
        )
    assert told.returncode == 1
    assert told.stderr == "Error: the output cannot be written: No space left on device\n"


def test_a_taken_port_is_named_before_anything_is_started(here: Here, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        told = here("up", "--port", "0", "--flower-port", port, "--data-dir", str(tmp_path / "data"))
    assert told.returncode == 4
    assert f"Port {port}" in told.stderr
    assert "--flower-port" in told.stderr
    assert not (tmp_path / "data").exists()


def test_a_postgres_that_is_not_there_may_come_later(here: Here, tmp_path: Path) -> None:
    roles = ("", "MAINTENANCE_", "OWNER_")
    settings = {f"BACKSCROLL_{role}DATABASE_URL": NOWHERE for role in roles} | {
        "BACKSCROLL_REDIS_URL": "redis://127.0.0.1:1/0",
        "BACKSCROLL_DATA_DIR": str(tmp_path / "data"),
    }
    told = here("up", "--port", "0", "--no-flower", **settings)
    assert told.returncode == 1, told.stderr
    assert "Postgres cannot be reached" in told.stderr
    assert "secret" not in told.stderr
    assert "Traceback" not in told.stderr


def test_a_redis_that_is_not_there_is_named_before_anything_waits_for_it(here: Here, tmp_path: Path) -> None:
    settings = {
        "BACKSCROLL_REDIS_URL": "redis://127.0.0.1:1/0",
        "BACKSCROLL_DATA_DIR": str(tmp_path / "data"),
    }
    told = here("up", "--port", "0", "--no-flower", "--light", **settings)
    assert told.returncode == 1, told.stderr
    assert "Redis does not answer" in told.stderr
    assert "BACKSCROLL_REDIS_URL" in told.stderr


HEAVY = (
    *("torch", "transformers", "sentence_transformers", "numpy"),
    *("sqlalchemy", "psycopg", "alembic", "redis", "celery", "kombu"),
    *("fastapi", "starlette", "uvicorn"),
)
PROBE = f"""
import sys
from ops.cli import main
for arguments in sys.argv[1:]:
    sys.argv = ["backscroll", *arguments.split(), "--help"]
    try:
        main()
    except SystemExit:
        print("IMPORTED", [arguments, *(name for name in {HEAVY!r} if name in sys.modules)])
"""


def test_help_imports_nothing_that_takes_long() -> None:
    asked = ["", *cli.COMMANDS, "jobs list"]
    told = subprocess.run(
        [sys.executable, "-c", PROBE, *asked],
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
        env=unwatched(clean_environment()),
    ).stdout
    assert told.count("Usage: backscroll") == len(asked)
    assert [line for line in told.splitlines() if line.startswith("IMPORTED")] == [
        f"IMPORTED {[name]}" for name in asked
    ]


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["worker", "--pool", "gevent"], 2, "a worker runs in the pool prefork or threads"),
        (["worker", "--pool=eventlet"], 2, "a worker runs in the pool prefork or threads"),
        (["worker", "-Pgevent"], 2, "a worker runs in the pool prefork or threads"),
        (["status"], 4, "BACKSCROLL_REDIS_URL is not set"),
    ],
)
def test_celerys_own_command_line_answers_with_a_sentence(
    tmp_path: Path, arguments: list[str], code: int, said: str
) -> None:
    for command in ("workers", "celery"):
        if command == "celery" and code == 2:
            # Celery imports the pool's package before it looks at any application
            continue
        told = subprocess.run(
            [sys.executable, "-P", "-m", command, "-A", "workers.app", *arguments],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            env=clean_environment(),
            timeout=SECONDS,
            check=False,
        )
        assert (told.returncode, said in told.stderr) == (code, True), told.stderr
        assert told.stderr.startswith("Error: ")
        assert len(told.stderr.splitlines()) == 1
