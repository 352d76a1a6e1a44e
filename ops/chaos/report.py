"""What a chaos run found, for people and for programs."""

from collections import Counter
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import Any

from rich.table import Table

from pipeline.jobs.runner import OUTAGE_SECONDS


@dataclass(frozen=True, kw_only=True)
class Payloads:
    """Payload tasks, which are as durable as their Redis: messages by what became of them."""

    # taken by Redis
    queued: int = 0
    stored: int = 0
    # queued before Redis was emptied
    lost_with_redis_data: int = 0
    # taken out of the queue by a worker or a connection that was killed before it could note so
    lost_in_flight: int = 0


@dataclass(frozen=True, kw_only=True)
class Recovered:
    """How one fault was recovered from, in seconds."""

    fault: str
    # until whatever was killed had started again
    starting: float
    # from then on: until all kinds of work were being claimed again and what the dead had held was taken over,
    # and until all that had been owed was done
    taken: float
    done: float
    # what `taken` must not exceed
    bound: float


@dataclass(kw_only=True)
class Report:
    """A run's figures."""

    seed: int
    lease_seconds: float
    sweep_seconds: float
    # unique ones, and how many were sent once more
    messages: int
    duplicates: int = 0
    # how often each kind was made
    kills: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    # kills that caught somebody in the middle of work
    midway: int = 0
    # processes that ended though nobody killed them
    ended_by_themselves: list[str] = field(default_factory=list)
    # of the door: answered 202, and what of it is there
    accepted: int = 0
    stored: int = 0
    # of what was accepted: deleted or forgotten since
    gone: int = 0
    lost: int = 0
    doubled: int = 0
    stuck: int = 0
    # work given up with a reason
    dead: int = 0
    sessions: dict[str, int] = field(default_factory=dict)
    payloads: Payloads = field(default_factory=Payloads)
    # how often a sender was sent away, by reason
    refusals: Counter[str] = field(default_factory=Counter)
    # edits and deletions taken by the door, and backfills and forgettings that went on meanwhile
    changed: int = 0
    backfills: int = 0
    forgotten: int = 0
    # faults that could not be made here, with the reason
    skipped: dict[str, str] = field(default_factory=dict)
    # the last one last
    recovered: list[Recovered] = field(default_factory=list)
    seconds: float = 0.0
    violations: list[str] = field(default_factory=list)
    # where the logs are, if something was found
    logs: str | None = None

    def bound(self, *, outage: bool) -> float:
        """Within which all that is owed must have been taken up: a lease and two sweeps, in seconds.

        After an `outage` of the model provider it is the pause until it is asked again instead, if that is longer.
        """
        pause = max(self.lease_seconds, OUTAGE_SECONDS) if outage else self.lease_seconds
        return pause + 2 * self.sweep_seconds


def as_dict(report: Report) -> dict[str, Any]:
    """The report as JSON has it."""
    return asdict(report) | {
        "kills": dict(report.kills),
        "faults": dict(report.faults),
        "refusals": dict(report.refusals),
        "seconds_to_recover": {
            what: {"median": round(median(times), 2), "longest": max(times), "last": times[-1]}
            for what, times in _times(report).items()
            if times
        }
        | {"bound": report.bound(outage=False), "bound_after_outage": report.bound(outage=True)},
    }


def _times(report: Report) -> dict[str, list[float]]:
    return {what: [getattr(one, what) for one in report.recovered] for what in ("starting", "taken", "done")}


def as_table(report: Report) -> Table:
    """The report for a terminal."""
    table = Table(title=f"Chaos, seed {report.seed}, {report.seconds:.0f} s", show_header=False)
    table.add_row("messages", f"{report.messages} and {report.duplicates} of them again")
    table.add_row("kills", _counted(report.kills))
    table.add_row("  in the middle of work", str(report.midway))
    table.add_row("other faults", _counted(report.faults))
    for kind, reason in report.skipped.items():
        table.add_row("  left out", f"{kind}: {reason}")
    table.add_row(
        "meanwhile",
        f"{report.changed} edits and deletions, {report.backfills} backfills, {report.forgotten} forgettings",
    )
    table.add_row("ended by themselves", ", ".join(report.ended_by_themselves) or "none")
    table.add_section()
    table.add_row("the door: accepted / stored", f"{report.accepted} / {report.stored}")
    table.add_row("  deleted or forgotten", str(report.gone))
    table.add_row("lost / doubled / stuck", f"{report.lost} / {report.doubled} / {report.stuck}")
    table.add_row("sessions", _counted(report.sessions))
    table.add_row("given up with a reason", str(report.dead))
    table.add_row("senders sent away", _counted(report.refusals))
    told = report.payloads
    table.add_row("payload tasks: queued / stored", f"{told.queued} / {told.stored}")
    table.add_row("  lost with Redis' data", str(told.lost_with_redis_data))
    table.add_row("  lost in flight", str(told.lost_in_flight))
    table.add_section()
    names = {
        "starting": "seconds until processes are up",
        "taken": "  then until all is taken up",
        "done": "  and done",
    }
    for what, times in _times(report).items():
        if times:
            slowest = max(report.recovered, key=lambda one: getattr(one, what))
            figures = f"median {median(times):.1f}, longest {max(times):.1f} ({slowest.fault})"
            table.add_row(names[what], figures)
    if report.recovered:
        table.add_row(
            "  taken up, at most",
            f"{report.bound(outage=False):.0f}, a lease and two sweeps; "
            f"{report.bound(outage=True):.0f} after a provider's outage",
        )
    return table


def _counted(counts: dict[str, int]) -> str:
    told = ", ".join(f"{kind} {count}" for kind, count in sorted(counts.items()))
    return f"{sum(counts.values())}: {told}" if told else "0"
