"""Figures of a benchmark, each with its unit and the limit or the ratio that it is judged by."""

from collections.abc import Sequence
from dataclasses import KW_ONLY, asdict, dataclass
from statistics import median, quantiles

from rich.table import Table

from ops.dev.outcome import end


@dataclass(frozen=True)
class Figure:
    """One figure of a benchmark.

    The ratio is judged, where there is one: two figures of one run on one machine; else the value.
    """

    case: str
    value: float
    unit: str = ""
    _: KW_ONLY
    # to another case of the run
    ratio: float | None = None
    # the most and the least that is allowed; neither: not judged
    most: float | None = None
    least: float | None = None

    @property
    def kept(self) -> bool:
        """Whether it is within its limit."""
        judged = self.value if self.ratio is None else self.ratio
        return (self.most is None or judged <= self.most) and (self.least is None or judged >= self.least)


def spread(case: str, milliseconds: Sequence[float], *, most: float | None = None) -> list[Figure]:
    """Return the most that half of at least two times take, and that 95 of 100 take, which is judged."""
    return [
        Figure(f"{case}, median", median(milliseconds), "ms"),
        Figure(f"{case}, p95", quantiles(milliseconds, n=20)[18], "ms", most=most),
    ]


def report(name: str, figures: Sequence[Figure], *, as_json: bool) -> None:
    """Print a benchmark's result; end with 5 when a limit is not kept."""
    kept = all(one.kept for one in figures)
    found = {"name": name, "results": [asdict(one) | {"kept": one.kept} for one in figures]}
    end(found, [_table(name, figures)], as_json=as_json, kept=kept)


def _table(name: str, figures: Sequence[Figure]) -> Table:
    table = Table("case", "measured", "ratio", "limit", "", title=name)
    for one in figures:
        limit = "" if one.most is None else f"at most {one.most:g}"
        limit = limit if one.least is None else f"at least {one.least:g}"
        verdict = "[green]kept[/green]" if one.kept else "[red]not kept[/red]"
        ratio = "" if one.ratio is None else f"{one.ratio:.2f}"
        table.add_row(one.case, f"{one.value:,.4g} {one.unit}", ratio, limit, verdict if limit else "")
    return table
