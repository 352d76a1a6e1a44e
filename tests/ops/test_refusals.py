"""What `backscroll` says when it cannot do what it was asked: one message that helps, and an exit code."""

import socket
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from ops import cli
from ops.console.command import Call
from schemas.errors import InvalidInput
from tests.ops.conftest import Here
from tests.ops.running import COMMAND, clean_environment, unwatched

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
    (tmp_path / ".env").unlink()
    (tmp_path / "more.env").write_text("BACKSCROLL_NONSENSE=1\n")
    told = here("chats", BACKSCROLL_CONFIG=str(tmp_path / "more.env"))
    assert "BACKSCROLL_NONSENSE in " in told.stderr


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("REDIS_URL", "http://x", "must look like redis://"),
        ("REDIS_URL", "redis://localhost:notaport/0", "must look like redis://"),
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
        )
    assert told.returncode == 1
    assert told.stderr == "Error: the output cannot be written: No space left on device\n"


@pytest.mark.parametrize("option", ["--port", "--flower-port", "--metrics-port"])
def test_a_taken_port_is_named_before_anything_is_started(here: Here, tmp_path: Path, option: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        free = (word for name in ("--port", "--flower-port") if name != option for word in (name, "0"))
        data_dir = tmp_path / "data"
        told = here("up", option, port, *free, "--data-dir", str(data_dir))
    assert told.returncode == 4
    assert f"Port {port}" in told.stderr
    assert option in told.stderr
    assert not data_dir.exists()


def test_a_postgres_that_is_not_there_may_come_later(here: Here, tmp_path: Path) -> None:
    settings = {
        "BACKSCROLL_DATABASE_URL": NOWHERE,
        "BACKSCROLL_MAINTENANCE_DATABASE_URL": NOWHERE,
        "BACKSCROLL_OWNER_DATABASE_URL": NOWHERE,
        "BACKSCROLL_REDIS_URL": "redis://127.0.0.1:1/0",
        "BACKSCROLL_DATA_DIR": str(tmp_path / "data"),
    }
    for arguments in (("db", "status"), ("up", "--port", "0", "--no-flower")):
        told = here(*arguments, **settings)
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


def test_with_json_nothing_is_confirmed_by_a_question() -> None:
    with pytest.raises(InvalidInput, match="--json asks no questions: add --yes"):
        Call(as_json=True).confirm("Remove it?", yes=False)
    Call(as_json=True).confirm("Remove it?", yes=True)


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


def test_the_list_of_commands_says_of_each_what_its_own_help_says() -> None:
    group = typer.main.get_command(cli.app)
    assert isinstance(group, cli.Commands)
    for name in cli.COMMANDS:
        own = group.get_command(None, name)
        group.listing = True
        listed = group.get_command(None, name)
        group.listing = False
        assert listed.get_short_help_str(500) == own.get_short_help_str(500) != "", name
