"""Figures of evaluations, benchmarks and chaos runs: timed, limited and printed."""

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, asdict, dataclass
from statistics import median, quantiles
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import typer
from rich.table import Table

from ops.console import rendering
from ops.exit_codes import NOT_AS_IT_SHOULD_BE

if TYPE_CHECKING:
    import psycopg


P = ParamSpec("P")
T = TypeVar("T")
Say = Callable[[str], None]
"""Hears what a tool is doing."""


def wait(
    condition: Callable[[], bool],
    seconds: float,
    *,
    pause: float = 0.05,
    meanwhile: Callable[[], object] = lambda: None,
) -> float | None:
    """Wait until the condition holds; return the seconds it took, or None if longer than `seconds`."""
    began = time.monotonic()
    while not condition():
        if time.monotonic() - began > seconds:
            return None
        meanwhile()
        time.sleep(pause)
    return time.monotonic() - began


def timed(act: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> tuple[float, T]:
    """Call a function; return the milliseconds it took, and its result."""
    began = time.perf_counter()
    result = act(*args, **kwargs)
    return (time.perf_counter() - began) * 1000, result


def count_rows(
    connection: "psycopg.Connection", statement: str, parameters: Sequence[object] | Mapping[str, object] = ()
) -> int:
    """Return the number that a statement selects; 0 without a row."""
    row = connection.execute(statement, parameters).fetchone()
    return int(row[0]) if row else 0


@dataclass(frozen=True)
class Figure:
    """A figure of a benchmark with its limit; a ratio to another case of the run is judged in place of the value."""

    case: str
    value: float
    unit: str = ""
    _: KW_ONLY
    ratio: float | None = None
    most: float | None = None
    least: float | None = None

    @property
    def kept(self) -> bool:
        """Whether it is within its limit."""
        judged = self.value if self.ratio is None else self.ratio
        return (self.most is None or judged <= self.most) and (self.least is None or judged >= self.least)


@dataclass(frozen=True, kw_only=True)
class Report:
    """What a command prints; it ends with 5 where there are violations."""

    found: Mapping[str, Any]
    violations: Sequence[str] = ()
    # what is too long for people
    only_in_json: Collection[str] = ()


def spread(case: str, milliseconds: Sequence[float], *, most: float | None = None) -> list[Figure]:
    """Return the median and the 95th percentile of times, which is judged."""
    high = quantiles(milliseconds, n=20, method="inclusive")[-1]
    return [
        Figure(f"{case}, median", median(milliseconds), "ms"),
        Figure(f"{case}, p95", high, "ms", most=most),
    ]


def benchmark(name: str, measured: Iterable[Figure]) -> Report:
    """Return the outcome of a benchmark; a limit that is not kept is a violation."""
    figures = list(measured)
    return Report(
        found={"name": name, "results": [asdict(figure) | {"kept": figure.kept} for figure in figures]},
        violations=[f"{figure.case}: not within its limit" for figure in figures if not figure.kept],
    )


def finish(measure: Callable[[Say], Report], *, as_json: bool) -> None:
    """Measure, showing what is being done, and print the outcome. Raises `typer.Exit` with 5 on a violation."""
    with rendering.patience("measuring", shown=True) as say:
        outcome = measure(say)
    if as_json:
        rendering.print_json(outcome.found)
    else:
        shown = {name: value for name, value in outcome.found.items() if name not in outcome.only_in_json}
        rendering.out().print(*tables(shown))
    for violation in outcome.violations:
        rendering.warn(f"violation: {violation}", style="red")
    if outcome.violations:
        raise typer.Exit(NOT_AS_IT_SHOULD_BE)


def tables(found: Mapping[str, Any]) -> Iterator[Table]:
    """Draw the single figures, and a table for each group of them."""
    groups = {name: _rows(value) for name, value in found.items()}
    yield rendering.facts({name: _cell(found[name]) for name, rows in groups.items() if not rows})
    for title, rows in groups.items():
        columns = list(dict.fromkeys(column for _, row in rows for column in row))
        cells = ((name, *(_cell(row.get(column)) for column in columns)) for name, row in rows)
        if rows:
            yield rendering.rows(("", *columns), cells, title=f"\n{title}", right=tuple(columns))


def _rows(group: Any, name: str = "") -> list[tuple[str, Mapping[str, Any]]]:
    """Return a row for each group within a group, and one for its own figures; none for a single figure."""
    if isinstance(group, Mapping):
        own = {key: value for key, value in group.items() if not isinstance(value, Mapping)}
        parts = [_rows(part, f"{name} {key}".strip()) for key, part in group.items() if key not in own]
        return [*([(name, own)] if own else []), *(row for part in parts for row in part)]
    rows = group if isinstance(group, list) else []
    return [(name, row) for row in rows if isinstance(row, Mapping)]


def _cell(value: Any) -> str:
    match value:
        case None:
            return "–"
        case list():
            return ", ".join(map(_cell, value))
        case float():
            return f"{value:,.4g}"
    return f"{value:,}" if type(value) is int else str(value)
