"""What a run found, for people and for programs: the verdict on its messages, and a chaos run's other figures."""

from collections import Counter
from collections.abc import Collection
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import Any

from rich.table import Table

from ops.dev.chaos import verdict
from ops.dev.chaos.cast import Cast
from ops.dev.chaos.driver import Driver
from ops.dev.chaos.traffic import Traffic
from ops.dev.chaos.verdict import Key, Verdict
from pipeline.ingest.policy import SessionPolicy
from pipeline.jobs.runner import OUTAGE_SECONDS

_TIMES = {
    "starting": "seconds until processes are up",
    "taken": "  then until all is taken up",
    "done": "  and done",
}


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
    kills: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
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
    refusals: Counter[str] = field(default_factory=Counter)
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

    def times(self) -> dict[str, list[float]]:
        """Seconds of each recovery, by what was waited for."""
        return {what: [one[what] for one in self.recovered] for what in _TIMES if self.recovered}


def as_dict(report: ChaosReport) -> dict[str, Any]:
    """The report as one JSON object."""
    recovery: dict[str, Any] = {
        what: {"median": round(median(times), 2), "longest": max(times), "last": times[-1]}
        for what, times in report.times().items()
    }
    bounds = {"bound": report.bound(outage=False), "bound_after_outage": report.bound(outage=True)}
    # asdict would count the pairs of a Counter
    counters = {name: dict(getattr(report, name)) for name in ("kills", "faults", "refusals")}
    return asdict(report) | counters | {"seconds_to_recover": recovery | bounds}


def as_table(report: ChaosReport) -> Table:
    """The report for a terminal."""
    payloads = report.payloads
    changed, backfills, forgotten = report.changed, report.backfills, report.forgotten
    rows = [
        ("messages", f"{report.messages} and {report.duplicates} of them again"),
        ("kills", _counted(report.kills)),
        ("  in the middle of work", str(report.midway)),
        ("other faults", _counted(report.faults)),
        *(("  left out", f"{kind}: {reason}") for kind, reason in report.skipped.items()),
        ("meanwhile", f"{changed} edits and deletions, {backfills} backfills, {forgotten} forgettings"),
        ("ended by themselves", ", ".join(report.ended_by_themselves) or "none"),
        ("HTTP API: accepted / stored", f"{report.accepted} / {report.stored}"),
        ("  deleted or forgotten", str(report.gone)),
        ("lost / doubled / stuck", f"{report.lost} / {report.doubled} / {report.stuck}"),
        ("sessions", _counted(report.sessions)),
        ("given up with a reason", str(report.dead)),
        ("senders sent away", _counted(report.refusals)),
        ("payload tasks: queued / stored", f"{payloads['queued']} / {payloads['stored']}"),
        ("  lost with Redis' data", str(payloads["lost_with_redis_data"])),
        ("  lost in flight", str(payloads["lost_in_flight"])),
    ]
    for what, times in report.times().items():
        slowest = report.recovered[times.index(max(times))]["fault"]
        rows.append((_TIMES[what], f"median {median(times):.1f}, longest {max(times):.1f} ({slowest})"))
    if report.recovered:
        usual, outage = report.bound(outage=False), report.bound(outage=True)
        bounds = f"{usual:.0f}, a lease and two sweeps; {outage:.0f} after a provider's outage"
        rows.append(("  taken up, at most", bounds))
    table = Table(title=f"Chaos, seed {report.seed}, {report.seconds:.0f} s", show_header=False)
    for row in rows:
        table.add_row(*row)
    return table


def _counted(counts: dict[str, int]) -> str:
    told = ", ".join(f"{kind} {count}" for kind, count in sorted(counts.items()))
    return f"{sum(counts.values())}: {told}" if told else "0"
