"""Figures of a benchmark, each with its unit and the limit or the ratio that it is judged by."""

import resource
from collections.abc import Sequence
from dataclasses import KW_ONLY, asdict, dataclass
from statistics import median, quantiles
from typing import Any

from rich.table import Table


@dataclass(frozen=True)
class Figure:
    """One figure of a benchmark.

    The ratio is judged, where there is one: two figures of one run on one machine; else the value.
    """

    case: str
    value: float
    unit: str
    _: KW_ONLY
    # to another case of the run
    ratio: float | None = None
    # the most that is allowed, or the least where more is better; none: not judged
    limit: float | None = None
    more_is_better: bool = False

    @property
    def kept(self) -> bool:
        """Whether it is within its limit."""
        judged = self.value if self.ratio is None else self.ratio
        if self.limit is None:
            return True
        return judged >= self.limit if self.more_is_better else judged <= self.limit


def spread(values: Sequence[float]) -> dict[str, float]:
    """Return the most that half of at least two values are (`p50`), and that 95 of 100 are (`p95`)."""
    return {"p50": round(median(values), 1), "p95": round(quantiles(values, n=20)[18], 1)}


def resident_mb() -> float:
    """Return the most memory that this process has held so far, in units of 10**6 bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6


def as_dict(name: str, figures: Sequence[Figure]) -> dict[str, Any]:
    """Return a benchmark's result as one JSON object."""
    return {"name": name, "results": [asdict(one) | {"kept": one.kept} for one in figures]}


def as_table(name: str, figures: Sequence[Figure]) -> Table:
    """Show a benchmark's result to people."""
    table = Table("case", "measured", "ratio", "limit", "", title=name)
    for one in figures:
        sign = "at least" if one.more_is_better else "at most"
        verdict = "[green]kept[/green]" if one.kept else "[red]not kept[/red]"
        table.add_row(
            one.case,
            f"{one.value:,.4g} {one.unit}",
            "" if one.ratio is None else f"{one.ratio:.2f}",
            "" if one.limit is None else f"{sign} {one.limit:g}",
            "" if one.limit is None else verdict,
        )
    return table
