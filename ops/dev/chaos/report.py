"""What a run found, for people and for programs: the verdict on its messages, and a chaos run's other figures."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import Any

from rich.table import Table

from ops.dev.chaos import quiet, verdict
from ops.dev.chaos.cast import Cast
from ops.dev.chaos.driver import Driver
from ops.dev.chaos.traffic import Traffic
from ops.dev.chaos.verdict import Key, Verdict
from ops.dev.observe import wait
from pipeline.ingest.policy import SessionPolicy
from pipeline.jobs.failures import OUTAGE_SECONDS


@dataclass(kw_only=True)
class JudgedRun:
    """What became of the messages of a run."""

    # of the HTTP API: answered 202
    accepted: int = 0
    lost: int = 0
    doubled: int = 0
    stuck: int = 0
    # processes that ended without being killed
    ended_by_themselves: list[str] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)

    def settle(self, cast: Cast, holds: Callable[[], bool], seconds: float, looks: int = 1) -> bool:
        """Wait until it holds at this number of looks in a row; return whether it came to that in time."""
        calm = 0

        def is_calm() -> bool:
            nonlocal calm
            self.ended_by_themselves += cast.tend()
            calm = calm + 1 if holds() else 0
            return calm >= looks

        if wait(is_calm, seconds, pause=0.1) is not None:
            return True
        self.violations.append(f"not quiet within {seconds:.0f} s: {quiet.left_to_do(cast)} left to do")
        return False

    def judge(self, cast: Cast, driver: Driver, made: Traffic, gone: Collection[Key]) -> Verdict:
        """Read the database of a cast that is quiet, and note what is wrong."""
        rules = SessionPolicy.of(cast.settings)
        with cast.connect() as connection:
            found = verdict.judge(connection, rules, made.originals, driver.accepted, gone)
        self.accepted = len(driver.accepted)
        self.lost, self.doubled, self.stuck = found.lost, found.doubled, found.stuck
        self.violations += found.violations + driver.unexpected[:5]
        return found


@dataclass(kw_only=True)
class ChaosReport(JudgedRun):
    """A chaos run's figures."""

    seed: int
    lease_seconds: float
    sweep_seconds: float
    # unique ones, and how many were sent once more
    messages: int
    duplicates: int = 0
    # how often each kind was made
    kills: dict[str, int] = field(default_factory=dict)
    faults: dict[str, int] = field(default_factory=dict)
    # kills that caught a process in the middle of work
    midway: int = 0
    # of what was accepted: stored; deleted or forgotten since
    stored: int = 0
    gone: int = 0
    # work given up with a reason
    dead: int = 0
    sessions: dict[str, int] = field(default_factory=dict)
    # payload tasks, which are as durable as their Redis: messages by what became of them
    payloads: dict[str, int] = field(default_factory=dict)
    # how often a sender was sent away, by reason
    refusals: dict[str, int] = field(default_factory=dict)
    # edits and deletions that the HTTP API took, and backfills and forgettings that went on meanwhile
    changed: int = 0
    backfills: int = 0
    forgotten: int = 0
    # faults that could not be made here, with the reason
    skipped: dict[str, str] = field(default_factory=dict)
    # for each recovery its `fault`; seconds until the killed had started again (`starting`), from then on until all
    # that had been due was taken up (`taken`) and done (`done`), and the most that `taken` may be (`bound`)
    recovered: list[dict[str, Any]] = field(default_factory=list)
    seconds: float = 0.0
    # where the logs are, if something was found
    logs: str | None = None

    def bound(self, *, outage: bool) -> float:
        """Seconds within which all that is due must have been taken up: a lease and two sweeps.

        After an `outage` of the model provider the pause until it is asked again counts instead, if that is longer.
        """
        pause = max(self.lease_seconds, OUTAGE_SECONDS) if outage else self.lease_seconds
        return pause + 2 * self.sweep_seconds


def as_dict(report: ChaosReport) -> dict[str, Any]:
    """Return the report as one JSON object."""
    recovery: dict[str, Any] = {
        what: {"median": round(median(times), 2), "longest": max(times)}
        for what in ("starting", "taken", "done")
        if (times := [one[what] for one in report.recovered])
    }
    bounds = {"bound": report.bound(outage=False), "bound_after_outage": report.bound(outage=True)}
    return asdict(report) | {"seconds_to_recover": recovery | bounds}


def as_table(title: str, *runs: Mapping[str, Any]) -> Table:
    """Runs for a terminal, side by side; what is wrong is printed beside it."""
    table = Table(title=title, show_header=False)
    for name in runs[0]:
        if name not in ("recovered", "violations"):
            table.add_row(name.replace("_", " "), *(_told(run[name]) for run in runs))
    return table


def _told(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_told(each)}" for name, each in value.items())
    return ", ".join(value) if isinstance(value, list) else str(value)
