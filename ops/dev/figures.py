"""Figures of evaluations, benchmarks and chaos runs: their limits and tables, and the commands that print them."""

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import KW_ONLY, asdict, dataclass
from functools import wraps
from statistics import median, quantiles
from typing import Any

import typer
from rich.table import Table

from ops.console import rendering
from ops.console.options import JsonOption
from ops.dev.observe import Say
from ops.exit_codes import NOT_AS_IT_SHOULD_BE


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

    @property
    def row(self) -> dict[str, Any]:
        """Its cells in a table."""
        limits = {"at most": self.most, "at least": self.least}
        limit = ", ".join(f"{word} {value:g}" for word, value in limits.items() if value is not None)
        kept = ("kept" if self.kept else "not kept") if limit else ""
        measured = f"{self.value:,.4g} {self.unit}"
        return {"measured": measured, "ratio": self.ratio or "", "limit": limit, "verdict": kept}


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What a command prints, as JSON or as tables; it ends with 5 where there are violations."""

    found: Mapping[str, Any]
    tables: Iterable[Table]
    violations: Sequence[str] = ()


def spread(case: str, milliseconds: Sequence[float], *, most: float | None = None) -> list[Figure]:
    """Return the median and the 95th percentile of times, which is judged."""
    high = quantiles(milliseconds, n=20, method="inclusive")[-1]
    return [
        Figure(f"{case}, median", median(milliseconds), "ms"),
        Figure(f"{case}, p95", high, "ms", most=most),
    ]


def benchmark(name: str, measured: Iterable[Figure]) -> Outcome:
    """Return the outcome of a benchmark; a limit that is not kept is a violation."""
    figures = list(measured)
    return Outcome(
        found={"name": name, "results": [asdict(figure) | {"kept": figure.kept} for figure in figures]},
        tables=[table(name, {figure.case: figure.row for figure in figures})],
        violations=[f"{figure.case}: not within its limit" for figure in figures if not figure.kept],
    )


def table(title: str, rows: Mapping[str, Mapping[str, Any]], caption: str = "") -> Table:
    """Draw a row for each name, with a column for each figure."""
    columns = list(dict.fromkeys(column for row in rows.values() for column in row))
    cells = ((name, *(_cell(row.get(column)) for column in columns)) for name, row in rows.items())
    made = rendering.rows(("", *columns), cells, title=title, right=tuple(columns))
    made.caption, made.caption_justify = caption, "left"
    return made


def _cell(value: Any) -> str:
    match value:
        case None:
            return "–"
        case Mapping():
            return ", ".join(f"{name} {_cell(item)}" for name, item in value.items())
        case list():
            return ", ".join(map(_cell, value))
        case float():
            return f"{value:,.4g}"
        case _:
            return f"{value:,}" if type(value) is int else str(value)


def command(app: typer.Typer, name: str | None = None, **texts: Any) -> Callable[..., Callable[..., Outcome]]:
    """Register a function that returns an `Outcome` as a command with `--json`; its `say` shows what it is doing."""

    def register(act: Callable[..., Outcome]) -> Callable[..., Outcome]:
        @wraps(act)
        def run(as_json: bool, **arguments: Any) -> None:
            with shown() as say:
                outcome = act(**arguments, say=say)
            end(outcome, as_json=as_json)

        options = [param for param in inspect.signature(act).parameters.values() if param.name != "say"]
        json_option = inspect.Parameter(
            "as_json", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=JsonOption
        )
        signature = inspect.Signature([*options, json_option])
        vars(run)["__signature__"] = signature
        run.__annotations__ = {param.name: param.annotation for param in signature.parameters.values()}
        app.command(name, **texts)(run)
        return act

    return register


@contextmanager
def shown() -> Iterator[Say]:
    """Show what a tool is doing."""
    with rendering.err().status("starting") as status:
        yield status.update


def end(outcome: Outcome, *, as_json: bool) -> None:
    """Print an outcome and its violations. Raises `typer.Exit` with 5 when there are any."""
    if as_json:
        rendering.print_json(outcome.found)
    else:
        rendering.out().print(*outcome.tables)
    for violation in outcome.violations:
        rendering.err().print(f"[red]violation[/red] {violation}", highlight=False)
    if outcome.violations:
        raise typer.Exit(NOT_AS_IT_SHOULD_BE)
