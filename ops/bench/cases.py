"""What every benchmark finds: cases, each a value with its unit, and the limit or the ratio that it is judged by."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rich.table import Table

Say = Callable[[str], None]
"""Hears what the benchmark is doing."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """One figure of a benchmark.

    What is judged is the ratio, where there is one: two figures of one run on one machine; else the value.
    """

    case: str
    value: float
    unit: str
    # beside which other case of the run, and how many times it
    ratio: float | None = None
    # what is judged may not be above it, or below it where more is better; none: it is only told
    limit: float | None = None
    more_is_better: bool = False

    @property
    def kept(self) -> bool:
        """Whether it is within its limit."""
        if self.limit is None:
            return True
        judged = self.value if self.ratio is None else self.ratio
        return judged >= self.limit if self.more_is_better else judged <= self.limit


def as_dict(name: str, cases: Sequence[Case]) -> Mapping[str, Any]:
    """A benchmark's result as one JSON object."""
    return {"name": name, "results": [asdict(case) | {"kept": case.kept} for case in cases]}


def as_table(name: str, cases: Sequence[Case]) -> Table:
    """A benchmark's result for people."""
    table = Table(title=name)
    for column in ("case", "measured", "ratio", "limit", ""):
        table.add_column(column)
    for case in cases:
        bound = (
            "" if case.limit is None else f"{'at least' if case.more_is_better else 'at most'} {case.limit:g}"
        )
        table.add_row(
            case.case,
            f"{case.value:,.4g} {case.unit}",
            "" if case.ratio is None else f"{case.ratio:.2f}",
            bound,
            "" if case.limit is None else "[green]kept[/green]" if case.kept else "[red]not kept[/red]",
        )
    return table
