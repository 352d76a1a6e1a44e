"""The examples in the help of the commands hold, and those in their docstrings."""

import re
import shlex
from collections.abc import Iterator
from typing import Any

import click
import pytest
import typer

from ops import cli


def _all(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    if path:
        yield path, command
    if hasattr(command, "list_commands"):
        for name in command.list_commands(click.Context(command)):
            yield from _all(command.get_command(click.Context(command), name), (*path, name))


COMMANDS = dict(_all(typer.main.get_command(cli.app)))


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_every_help_has_examples_that_hold_and_tells_of_exit_codes(path: tuple[str, ...]) -> None:
    help_text = COMMANDS[path].epilog
    assert "**Exit codes:**" in help_text
    (examples,) = re.findall(r"\*\*Examples?:\*\* (.*?)(?:\n\n|$)", help_text, re.DOTALL)
    for example in examples.split(" · "):
        _, _, words = example.partition("backscroll ")
        given = shlex.split(words.partition(" > ")[0])
        named = max((p for p in COMMANDS if tuple(given[: len(p)]) == p), key=len)
        assert path == named[: len(path)], example
        options = {option for p in COMMANDS[named].params for option in (*p.opts, *p.secondary_opts)}
        assert {word for word in given if word.startswith("--")} <= options, example
