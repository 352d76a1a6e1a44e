"""Diagnose pending jobs and stored data."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from pipeline.operations.doctor.finding import Finding, some

# The sweep hints every few seconds: work that is due so long has nobody to do it.
LATE_WARNING_SECONDS = 300.0
LATE_ERROR_SECONDS = 3600.0


@dataclass(frozen=True, kw_only=True)
class Work:
    """The late and dead jobs of one kind."""

    kind: str
    # due, and claimed by nobody
    late: int = 0
    late_seconds: float = 0.0
    dead: int = 0


@dataclass(frozen=True, kw_only=True)
class Tenant:
    """What is wrong with one tenant's data, on a sample of its chats where that takes long."""

    tenant_id: str
    # chats whose sessions are not those of the pure function
    differing: Sequence[str] = ()
    # chats whose counters are not what is stored
    drifted: Sequence[str] = ()
    # rows that should have something made of them, and nobody owes it, by kind of work
    unowed: Mapping[str, int] | None = None
    # vectors whose row is gone or has gone into another
    orphans: int = 0


def work(work: Sequence[Work]) -> Iterator[Finding]:
    """Yield findings about late jobs and dead letters."""
    for owed in work:
        if owed.late_seconds > LATE_WARNING_SECONDS:
            yield Finding(
                check="late",
                severity="error" if owed.late_seconds > LATE_ERROR_SECONDS else "warning",
                what=f"{owed.late:,} pieces of {owed.kind} are due, the oldest for {owed.late_seconds / 60:,.0f} min",
                why="Nobody does them, or not fast enough: memory lags behind the chats.",
                remedy="See that `backscroll beat` and the queue's workers run, and their logs; add workers.",
            )
        if owed.dead:
            yield Finding(
                check="dead",
                severity="warning",
                what=f"{owed.dead:,} pieces of {owed.kind} were given up",
                why="What they should have made is missing from memory.",
                remedy=f"See why: `backscroll jobs list --kind {owed.kind}`; then `jobs replay` or `jobs drop`.",
            )


def tenants(tenants: Sequence[Tenant]) -> Iterator[Finding]:
    """Yield findings about each tenant's data."""
    for tenant in tenants:
        of = f"of tenant {tenant.tenant_id}"
        if tenant.differing:
            yield Finding(
                check="sessions",
                severity="error",
                what=f"the sessions of {len(tenant.differing)} chats {of} are not what their messages say"
                f" ({some(tenant.differing)})",
                why="Messages belong to no session or to a wrong one, and summaries miss them.",
                remedy="Run `backscroll doctor --fix`, or `backscroll backfills start sessionize --chat …`.",
                fixable=True,
            )
        if tenant.drifted:
            yield Finding(
                check="counters",
                severity="warning",
                what=f"the counters of {len(tenant.drifted)} chats {of} have drifted ({some(tenant.drifted)})",
                why="Keyword ranking weighs words by them.",
                remedy="Run `backscroll doctor --fix`.",
                fixable=True,
            )
        for kind, count in (tenant.unowed or {}).items():
            if count:
                yield Finding(
                    check="unowed",
                    severity="error",
                    what=f"{count:,} rows {of} lack what {kind} makes, and nobody owes it",
                    why="They would never be in memory.",
                    remedy="Run `backscroll doctor --fix`.",
                    fixable=True,
                )
        if tenant.orphans:
            yield Finding(
                check="orphans",
                severity="error",
                what=f"{tenant.orphans:,} vectors {of} have no row, or one that has gone into another",
                why="What is gone could still be found.",
                remedy="Run `backscroll doctor --fix`.",
                fixable=True,
            )
