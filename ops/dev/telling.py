"""How the developers' commands end: the result, what is wrong with it, and the exit code."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import typer
from rich.table import Table

from ops.console import rendering
from ops.exit_codes import NOT_AS_IT_SHOULD_BE


def tell(
    found: Mapping[str, Any],
    tables: Iterable[Table],
    violations: Sequence[str] = (),
    notes: Sequence[str] = (),
    *,
    as_json: bool,
    kept: bool = True,
) -> None:
    """Print the result as JSON or tables, and what is wrong; end with 5 when a promise or a limit is not kept."""
    if as_json:
        rendering.print_json(found)
    else:
        rendering.out().print(*tables)
    for violation in violations:
        rendering.err().print(f"[red]violation[/red] {violation}", highlight=False)
    for note in notes:
        rendering.err().print(note)
    if violations or not kept:
        raise typer.Exit(NOT_AS_IT_SHOULD_BE)
