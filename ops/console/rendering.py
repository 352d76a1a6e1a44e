"""How commands print: tables and times for people, JSON for machines."""

import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime, tzinfo
from typing import Any
from zoneinfo import ZoneInfo

from pydantic_core import to_json
from rich.console import Console, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from pipeline.text.fencing import visible

WATCH_SECONDS = 2.0
# A pipe has no width, and rich's default of 80 characters would cut tables.
PIPE_WIDTH = 160
# What `visible` leaves of C0 and C1, without tab and line feed.
_CONTROL = re.compile("[\x0b-\x0d\x1c-\x1f\x85]")


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


def plain(text: str) -> str:
    r"""Remove the characters that would steer a terminal, or turn what is printed around.

    >>> plain("red \x1b[31malert"), plain("to \u202e\u05d0\u05d1 \u2067Ann")
    ('red [31malert', 'to \u05d0\u05d1 Ann')
    """
    return _CONTROL.sub("", visible(text))


def preview(text: str, chars: int) -> str:
    """Put a text on one line and cut it to `chars` characters.

    >>> preview("The boiler\\nis fixed.", 12)
    'The boiler…'
    """
    line = " ".join(plain(text).split())
    return line if len(line) <= chars else line[: chars - 1].rstrip() + "…"


def moment(at: datetime | None, zone: str | tzinfo = "UTC") -> str:
    """Format a time in a zone, to the minute; a dash for None.

    >>> from datetime import UTC
    >>> moment(datetime(2026, 7, 1, 22, 30, tzinfo=UTC), "Europe/Lisbon")
    '2026-07-01 23:30'
    """
    if at is None:
        return "–"
    return f"{at.astimezone(ZoneInfo(zone) if isinstance(zone, str) else zone):%Y-%m-%d %H:%M}"


def age(seconds: float | None) -> str:
    """Format a duration in its largest sensible unit; a dash for None.

    >>> [age(s) for s in (0.2, 59, 150, 7300, 200_000)]
    ['0 s', '59 s', '2 min', '2 h', '2 d']
    """
    if seconds is None:
        return "–"
    for unit, length, upto in (("s", 1, 120), ("min", 60, 7200), ("h", 3600, 172_800)):
        if seconds < upto:
            return f"{int(seconds // length)} {unit}"
    return f"{int(seconds // 86_400)} d"


def size(count: float) -> str:
    """Format a number of bytes.

    >>> size(512), size(34_500_000)
    ('512 B', '34.5 MB')
    """
    for unit, length in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= length:
            return f"{count / length:.1f} {unit}"
    return f"{int(count)} B"


def dollars(amount: float | None) -> str:
    """Format an amount of money, small ones to a hundredth of a cent; a dash for None.

    >>> [dollars(amount) for amount in (0, 0.00056, 0.25, 1234.5, None)]
    ['$0.00', '$0.0006', '$0.25', '$1,234.50', '–']
    """
    if amount is None:
        return "–"
    return f"${amount:,.4f}" if 0 < amount < 0.1 else f"${amount:,.2f}"


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
    """Add a row, with thousands separators in numbers and without markup in texts."""
    into.add_row(*(cell if isinstance(cell, Text) else Text(_cell(cell)) for cell in cells))


def _cell(value: object) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
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
    for each in cells:
        row(made, *each)
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
