"""How commands print: tables and times for people, JSON for machines."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from typing import Any

from pydantic_core import to_json
from rich.console import Console, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from pipeline.text.display import age as age
from pipeline.text.display import dollars as dollars
from pipeline.text.display import moment as moment
from pipeline.text.display import plain as plain
from pipeline.text.display import preview as preview
from pipeline.text.display import size as size

WATCH_SECONDS = 2.0
# A pipe has no width, and rich's default of 80 characters would cut tables.
PIPE_WIDTH = 160


def out() -> Console:
    """Open standard output, for results."""
    return _console(stderr=False)


def err() -> Console:
    """Open standard error, for progress and warnings."""
    return _console(stderr=True)


def _console(*, stderr: bool) -> Console:
    console = Console(stderr=stderr, highlight=False)
    if not console.is_terminal:
        console.width = PIPE_WIDTH
    return console


def warn(text: str, style: str = "yellow") -> None:
    """Print a warning on standard error, without markup and unwrapped, so that it can be copied."""
    err().print(plain(text), style=style, markup=False, soft_wrap=True)


def table(*columns: str, title: str | None = None, right: tuple[str, ...] = (), cut: str = "") -> Table:
    """Make a table; columns in `right` hold numbers, the column `cut` may be cut to fit."""
    made = Table(
        title=title and plain(title), title_justify="left", title_style="bold", box=None, pad_edge=False
    )
    made.expand = bool(cut)
    for column in columns:
        if cut and column == cut:
            made.add_column(column, ratio=1, no_wrap=True, overflow="ellipsis", min_width=20)
        else:
            made.add_column(column, justify="right" if column in right else "left", overflow="fold")
    return made


def row(into: Table, *cells: object) -> None:
    """Add a row, with thousands separators in numbers, times in UTC, lists with commas, and no markup in texts."""
    into.add_row(*(cell if isinstance(cell, Text) else Text(_cell(cell)) for cell in cells))


def _cell(value: object) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    if isinstance(value, datetime):
        return moment(value)
    if isinstance(value, list | tuple):
        return ", ".join(map(_cell, value))
    return plain("" if value is None else str(value))


def rows(
    columns: Iterable[str],
    cells: Iterable[Iterable[object]],
    *,
    title: str | None = None,
    right: tuple[str, ...] = (),
    cut: str = "",
) -> Table:
    """Make a table with its rows; see `table` and `row`."""
    made = table(*columns, title=title, right=right, cut=cut)
    for values in cells:
        row(made, *values)
    return made


def facts(values: Mapping[str, object]) -> Table:
    """Make a table of names and values, without headings."""
    made = rows(("", ""), values.items())
    made.show_header = False
    return made


def more_after(ids: Sequence[object], limit: int) -> list[str]:
    """Say how to see the next page of a list, if this one is full."""
    return [f"\nThere may be more: --after {ids[-1]}"] if len(ids) == limit else []


def with_note(text: str, note: str) -> Text:
    """Put a dim note below a text, for a cell of a table."""
    return Text.assemble(plain(text), "\n", (plain(note), "dim"))


@contextmanager
def patience(text: str, *, shown: bool) -> Iterator[Callable[[str], None]]:
    """Show on standard error, if it is a terminal, that something is being done; yields what shows each step."""
    console = err()
    if not (shown and console.is_terminal):
        yield lambda _: None
        return
    with console.status(text) as status:
        yield lambda step: status.update(f"{text}: {plain(step)}")


def print_json(value: Any) -> None:
    """Print a value (models, dataclasses, times) as one line of JSON on standard output."""
    print(to_json(value).decode(), flush=True)


def watch(look: Callable[[], RenderableType], until: Callable[[], bool] = lambda: False) -> None:
    """Show what `look` returns, refreshed every two seconds, until `until` or Ctrl-C; in a pipe one after the other."""
    with suppress(KeyboardInterrupt):
        if not out().is_terminal:
            poll(lambda: out().print(look()), until)
            return
        with Live(console=out(), auto_refresh=False, vertical_overflow="visible") as live:
            poll(lambda: live.update(look(), refresh=True), until)


def poll(look: Callable[[], object], until: Callable[[], bool]) -> None:
    """Look every two seconds until `until`."""
    while True:
        look()
        if until():
            return
        time.sleep(WATCH_SECONDS)
