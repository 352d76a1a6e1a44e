"""Show what an evaluation or a measurement is doing, and end it with its result."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import typer
from rich.table import Table

from ops.console import rendering
from ops.exit_codes import NOT_AS_IT_SHOULD_BE


@contextmanager
def shown() -> Iterator[Callable[[str], None]]:
    """Show what a tool is doing."""
    with rendering.err().status("starting") as status:
        yield status.update


def end(
    found: Mapping[str, Any],
    tables: Iterable[Table],
    violations: Sequence[str] = (),
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
    if violations or not kept:
        raise typer.Exit(NOT_AS_IT_SHOULD_BE)
