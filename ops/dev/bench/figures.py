"""Figures of a benchmark, each with its unit and the limit or the ratio that it is judged by."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, asdict, dataclass
from statistics import median, quantiles
from typing import Any

from rich.table import Table

Say = Callable[[str], None]
"""Hears what the benchmark is doing."""


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
        return self.limit is None or _is_within(judged, self.limit, more_is_better=self.more_is_better)


@dataclass(frozen=True, kw_only=True)
class Gate:
    """One promise of a run as a whole, beside what was measured."""

    name: str
    # what is counted
    counted: str
    measured: float
    # the most that is allowed, or the least where more is better
    limit: float
    unit: str
    more_is_better: bool = False

    @property
    def kept(self) -> bool:
        """Whether the measure is within the limit."""
        return _is_within(self.measured, self.limit, more_is_better=self.more_is_better)


@dataclass(frozen=True, kw_only=True)
class Spread:
    """Milliseconds: half of the cases took at most `p50`, 95 of 100 at most `p95`."""

    p50: float
    p95: float

    @classmethod
    def of(cls, values: Sequence[float]) -> "Spread":
        """The spread of at least two values."""
        return cls(p50=round(median(values), 1), p95=round(quantiles(values, n=20)[18], 1))

    def __str__(self) -> str:
        return f"{self.p50} / {self.p95} ms"


def as_dict(name: str, figures: Sequence[Figure]) -> Mapping[str, Any]:
    """A benchmark's result as one JSON object."""
    return {"name": name, "results": with_verdicts(figures)}


def with_verdicts(judged: Sequence[Figure | Gate]) -> list[dict[str, Any]]:
    """Each as a dictionary, with whether it is kept."""
    return [asdict(one) | {"kept": one.kept} for one in judged]


def as_table(name: str, figures: Sequence[Figure]) -> Table:
    """A benchmark's result for people."""
    table = Table("case", "measured", "ratio", "limit", "", title=name)
    for one in figures:
        table.add_row(
            one.case,
            f"{one.value:,.4g} {one.unit}",
            "" if one.ratio is None else f"{one.ratio:.2f}",
            "" if one.limit is None else _bound(one.limit, more_is_better=one.more_is_better),
            "" if one.limit is None else _verdict(kept=one.kept),
        )
    return table


def gates_table(gates: Sequence[Gate]) -> Table:
    """The limits beside what was measured."""
    table = Table("limit", "measured", "", "what is counted", title="limits")
    for gate in gates:
        bound = f"{gate.name}: {_bound(gate.limit, more_is_better=gate.more_is_better)} {gate.unit}"
        table.add_row(bound, f"{gate.measured:g}", _verdict(kept=gate.kept), gate.counted)
    return table


def _is_within(judged: float, limit: float, *, more_is_better: bool) -> bool:
    return judged >= limit if more_is_better else judged <= limit


def _bound(limit: float, *, more_is_better: bool) -> str:
    return f"{'at least' if more_is_better else 'at most'} {limit:g}"


def _verdict(*, kept: bool) -> str:
    return "[green]kept[/green]" if kept else "[red]not kept[/red]"
