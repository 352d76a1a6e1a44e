"""What a chaos run found, for people and for programs."""

from collections import Counter
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import Any

from rich.table import Table

from ops.chaos.cast import LEASE_SECONDS, SWEEP_SECONDS
from pipeline.ledger import OUTAGE_SECONDS


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


@dataclass(kw_only=True)
class Report:
    """A run's figures."""

    seed: int
    # unique ones, and how many were sent once more
    messages: int
    duplicates: int
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
    lost: int = 0
    doubled: int = 0
    stuck: int = 0
    # work given up with a reason
    dead: int = 0
    sessions: dict[str, int] = field(default_factory=dict)
    payloads: Payloads = field(default_factory=Payloads)
    # how often a sender was sent away, by reason
    refusals: Counter[str] = field(default_factory=Counter)
    # (fault, seconds from its end until all that was owed then was done), the last one last
    recovered: list[tuple[str, float]] = field(default_factory=list)
    seconds: float = 0.0
    violations: list[str] = field(default_factory=list)
    # where the logs are, if something was found
    logs: str | None = None

    @property
    def recovery_bound(self) -> float:
        """A lease, or the pause after which a provider is asked again, and two sweeps; in seconds."""
        return max(LEASE_SECONDS, OUTAGE_SECONDS) + 2 * SWEEP_SECONDS


def as_dict(report: Report) -> dict[str, Any]:
    """The report as JSON has it."""
    times = [seconds for _, seconds in report.recovered]
    return asdict(report) | {
        "kills": dict(report.kills),
        "faults": dict(report.faults),
        "refusals": dict(report.refusals),
        "seconds_to_recover": {
            "last": times[-1] if times else None,
            "median": round(median(times), 2) if times else None,
            "longest": max(times, default=None),
            "bound": report.recovery_bound,
        },
    }


def as_table(report: Report) -> Table:
    """The report for a terminal."""
    table = Table(title=f"Chaos, seed {report.seed}, {report.seconds:.0f} s", show_header=False)
    table.add_row("messages", f"{report.messages} and {report.duplicates} of them again")
    table.add_row("kills", _counted(report.kills))
    table.add_row("  in the middle of work", str(report.midway))
    table.add_row("other faults", _counted(report.faults))
    table.add_row("ended by themselves", ", ".join(report.ended_by_themselves) or "none")
    table.add_section()
    table.add_row("the door: accepted / stored", f"{report.accepted} / {report.stored}")
    table.add_row("lost / doubled / stuck", f"{report.lost} / {report.doubled} / {report.stuck}")
    table.add_row("sessions", _counted(report.sessions))
    table.add_row("given up with a reason", str(report.dead))
    table.add_row("senders sent away", _counted(report.refusals))
    told = report.payloads
    table.add_row("payload tasks: queued / stored", f"{told.queued} / {told.stored}")
    table.add_row("  lost with Redis' data", str(told.lost_with_redis_data))
    table.add_row("  lost in flight", str(told.lost_in_flight))
    table.add_section()
    times = [seconds for _, seconds in report.recovered]
    if times:
        last, middle, longest = times[-1], median(times), max(times)
        slowest = next(kind for kind, seconds in report.recovered if seconds == longest)
        table.add_row("seconds to recover, last fault", f"{last:.1f}")
        table.add_row("  median / longest", f"{middle:.1f} / {longest:.1f} ({slowest})")
        table.add_row("  a provider's pause and two sweeps", f"{report.recovery_bound:.1f}")
    return table


def _counted(counts: dict[str, int]) -> str:
    told = ", ".join(f"{kind} {count}" for kind, count in sorted(counts.items()))
    return f"{sum(counts.values())}: {told}" if told else "0"
