"""How commands show what they found: tables and times for people, JSON for machines."""

import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, tzinfo
from typing import Annotated, Any
from zoneinfo import ZoneInfo

import typer
from pydantic_core import to_json
from rich.console import Console, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

JsonOption = Annotated[bool, typer.Option("--json", help="One JSON object on standard output.")]

WATCH_SECONDS = 2.0
# A pipe has no width; rich's own 80 characters would cut tables.
PIPE_WIDTH = 160
# What people wrote must not move the cursor of whoever reads it: C0 and C1 without tab and line feed.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def out() -> Console:
    """Standard output, for results."""
    return _console(stderr=False)


def err() -> Console:
    """Standard error, for progress and what goes beside a result."""
    return _console(stderr=True)


def _console(*, stderr: bool) -> Console:
    console = Console(stderr=stderr, highlight=False)
    if not console.is_terminal:
        console.width = PIPE_WIDTH
    return console


def plain(text: str) -> str:
    r"""Stored text without what would steer a terminal.

    >>> plain("red \x1b[31malert")
    'red [31malert'
    """
    return _CONTROL.sub("", text)


def preview(text: str, chars: int) -> str:
    """The text on one line, cut to so many characters.

    >>> preview("The boiler\\nis fixed.", 12)
    'The boiler…'
    """
    line = " ".join(plain(text).split())
    return line if len(line) <= chars else line[: chars - 1].rstrip() + "…"


def moment(at: datetime | None, zone: str | tzinfo = "UTC") -> str:
    """A time on the clock of a zone, to the minute; a dash for none.

    >>> from datetime import UTC
    >>> moment(datetime(2026, 7, 1, 22, 30, tzinfo=UTC), "Europe/Lisbon")
    '2026-07-01 23:30'
    """
    if at is None:
        return "–"
    return f"{at.astimezone(ZoneInfo(zone) if isinstance(zone, str) else zone):%Y-%m-%d %H:%M}"


def age(seconds: float | None) -> str:
    """A length of time in its largest sensible unit; a dash for none.

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
    """A number of bytes.

    >>> size(512), size(34_500_000)
    ('512 B', '34.5 MB')
    """
    for unit, length in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= length:
            return f"{count / length:.1f} {unit}"
    return f"{int(count)} B"


def table(*columns: str, title: str | None = None, right: tuple[str, ...] = (), cut: str = "") -> Table:
    """A table with these headings; those in `right` hold numbers, the one in `cut` what may be cut to fit."""
    made = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False)
    made.expand = bool(cut)
    for column in columns:
        if cut and column == cut:
            made.add_column(column, ratio=1, no_wrap=True, overflow="ellipsis", min_width=20)
        else:
            made.add_column(column, justify="right" if column in right else "left", overflow="fold")
    return made


def row(into: Table, *cells: object) -> None:
    """Add a row; numbers get thousands separators, and nothing in a text is taken for markup."""
    into.add_row(*(cell if isinstance(cell, Text) else Text(_cell(cell)) for cell in cells))


def _cell(value: object) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return plain("" if value is None else str(value))


def with_note(text: str, note: str) -> Text:
    """A text with something said about it on lines of their own, for a cell of a table."""
    return Text.assemble(plain(text), "\n", (plain(note), "dim"))


@contextmanager
def patience(text: str, *, shown: bool) -> Iterator[None]:
    """Shows that something is being done, on standard error and only to somebody who watches it."""
    console = err()
    if not (shown and console.is_terminal):
        yield
        return
    with console.status(text):
        yield


def print_json(value: Any) -> None:
    """The value (models, dataclasses, times among it) as one JSON object on one line of standard output."""
    print(to_json(value).decode(), flush=True)


def watch(look: Callable[[], RenderableType], *, until: Callable[[], bool] = lambda: False) -> None:
    """Show what `look` returns, anew every two seconds, until it is so or somebody presses Ctrl-C.

    Where nobody watches, in a pipe, only the last of it is shown.
    """
    with Live(console=out(), auto_refresh=False, vertical_overflow="visible") as live:
        try:
            poll(lambda: live.update(look(), refresh=True), until)
        except KeyboardInterrupt:
            return


def poll(look: Callable[[], object], until: Callable[[], bool]) -> None:
    """Look every two seconds until it is so."""
    while True:
        look()
        if until():
            return
        time.sleep(WATCH_SECONDS)
