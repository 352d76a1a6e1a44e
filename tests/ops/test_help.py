"""Help comes at once: what takes long to import is imported where it is used."""

import subprocess
import sys

import pytest
import typer

from ops import cli
from tests.ops.running import clean_environment, unwatched

HEAVY = (
    *("torch", "transformers", "sentence_transformers", "numpy"),
    *("sqlalchemy", "psycopg", "alembic", "redis", "celery", "kombu"),
    *("fastapi", "starlette", "uvicorn"),
)
PROBE = f"""
import atexit, sys
sys.argv = ["backscroll", *sys.argv[1:], "--help"]
atexit.register(lambda: print("IMPORTED", *[name for name in {HEAVY!r} if name in sys.modules]))
from ops.cli import main
main()
"""


@pytest.mark.parametrize(
    "arguments", [[], *([name] for name in cli.COMMANDS), ["jobs", "list"]], ids=" ".join
)
def test_help_imports_nothing_that_takes_long(arguments: list[str]) -> None:
    told = subprocess.run(
        [sys.executable, "-c", PROBE, *arguments],
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
        env=unwatched(clean_environment()),
    ).stdout
    assert "Usage: backscroll" in told
    assert told.rstrip().endswith("IMPORTED")


def test_the_list_of_commands_says_of_each_what_its_own_help_says() -> None:
    group = typer.main.get_command(cli.app)
    assert isinstance(group, cli.Commands)
    for name in cli.COMMANDS:
        own = group.get_command(None, name)
        group.listing = True
        listed = group.get_command(None, name)
        group.listing = False
        assert listed.get_short_help_str(500) == own.get_short_help_str(500) != "", name
