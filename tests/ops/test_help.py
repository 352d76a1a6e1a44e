"""Help comes at once: what takes long to import is imported where it is used."""

import subprocess
import sys

import typer

from ops import cli
from tests.ops.running import clean_environment, unwatched

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
