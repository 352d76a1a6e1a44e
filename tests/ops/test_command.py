"""Options that commands share are declared once, and nobody is asked where nobody can answer."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from ops.console.command import Call, command
from schemas.errors import InvalidInput


@dataclass(frozen=True, kw_only=True)
class Filter:
    """Two options that belong together."""

    kind: Annotated[str, typer.Option("--kind", help="The kind.")] = "any"
    loud: Annotated[bool, typer.Option("--loud", help="Loudly.")] = False


def test_each_field_of_a_group_is_an_option_and_the_common_ones_come_last() -> None:
    app, seen = typer.Typer(), []

    @command(app, "act ann")
    def act(call: Call, name: Annotated[str, typer.Argument()], chosen: Filter, count: int = 1) -> None:
        seen.append((call, name, chosen, count))

    given = ["--kind", "embed", "--tenant", "acme", "--data-dir", "/folder", "--json", "ann", "--count", "3"]
    assert CliRunner().invoke(app, given).exit_code == 0
    call = Call(as_json=True, tenant="acme", data_dir=Path("/folder"))
    assert seen == [(call, "ann", Filter(kind="embed"), 3)]
    assert CliRunner().invoke(app, ["ann"]).exit_code == 0
    assert seen[1:] == [(Call(), "ann", Filter(), 1)]
    names = [parameter.name for parameter in typer.main.get_command(app).params]
    assert names[:4] == ["name", "kind", "loud", "count"]
    assert set(names[4:]) >= {"as_json", "tenant", "data_dir"}


def test_a_help_alone_makes_an_argument_an_option_or_a_flag_without_its_opposite() -> None:
    app, seen = typer.Typer(), []

    @command(app, "act ann --so-quiet")
    def act(
        name: Annotated[str, "Whose."],
        so_quiet: Annotated[bool, "Quietly."] = False,
        count: Annotated[int | None, "How often."] = None,
    ) -> None:
        seen.append((name, so_quiet, count))

    assert CliRunner().invoke(app, ["ann", "--so-quiet", "--count", "2"]).exit_code == 0
    assert seen == [("ann", True, 2)]
    assert CliRunner().invoke(app, ["ann", "--no-so-quiet"]).exit_code == 2
    shown = CliRunner().invoke(app, ["--help"]).stdout
    for told in ("Whose.", "Quietly.", "How often.", "Example", "act ann --so-quiet"):
        assert told in shown


def test_with_json_nothing_is_confirmed_by_a_question() -> None:
    with pytest.raises(InvalidInput, match="--json asks no questions: add --yes"):
        Call(as_json=True).confirm("Remove it?", yes=False)
    Call(as_json=True).confirm("Remove it?", yes=True)
