"""Diagnose Postgres: its logins, version, tables and clock."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pipeline.operations.doctor.finding import Finding

SKEW_WARNING_SECONDS = 2.0
SKEW_ERROR_SECONDS = 60.0
OLDEST_POSTGRES = 15
# Below it a search inside a chat may find too little (iterative scans came with 0.8).
OLDEST_PGVECTOR = (0, 8)


@dataclass(frozen=True, kw_only=True)
class Login:
    """One of the URLs to Postgres, tried."""

    # the variable that names it
    setting: str
    # none: it could not be used, for this reason
    role: str | None = None
    problem: str | None = None
    # row-level security does not bind it
    unbound: bool = False


@dataclass(frozen=True, kw_only=True)
class Server:
    """Postgres and the tables in it."""

    version: int
    pgvector: str | None
    migration: str | None
    needed: str
    vector_tables: bool = False
    # tables with a tenant and without a wall that holds their owner too
    unwalled: Sequence[str] = ()
    # by an interrupted build
    invalid_indexes: Sequence[str] = ()


def not_running(problem: str) -> Finding:
    """Report that neither configured nor embedded servers run."""
    return Finding(
        check="connection",
        severity="error",
        what=problem.partition(": ")[0],
        why="Nothing is accepted, done or found, and there is nothing to look at.",
        remedy="Start it with `backscroll up`, name its folder by --data-dir, or set BACKSCROLL_DATABASE_URL and "
        "BACKSCROLL_REDIS_URL to servers of your own.",
    )


def logins(logins: Sequence[Login]) -> Iterator[Finding]:
    """Yield what is wrong with the URLs to Postgres."""
    for login in logins:
        if login.problem is not None:
            yield Finding(
                check="connection",
                severity="error",
                what=f"{login.setting} cannot be used: {login.problem}",
                why="Nothing is accepted, done or found without Postgres.",
                remedy="Start Postgres, or correct the URL; `backscroll db roles` makes the roles anew.",
            )
        elif login.unbound:
            yield Finding(
                check="role",
                severity="error",
                what=f"{login.setting} logs in as {login.role}, which row-level security does not bind",
                why="The walls between tenants do not hold for it.",
                remedy="Use the roles that `backscroll db roles` makes.",
            )
    if not any(login.setting == "BACKSCROLL_MAINTENANCE_DATABASE_URL" for login in logins):
        yield Finding(
            check="role",
            severity="warning",
            what="BACKSCROLL_MAINTENANCE_DATABASE_URL is not set",
            why="Workers and beat claim work with it; here only one tenant was looked at.",
            remedy="Set it to the URL that `backscroll db roles` printed.",
        )


def server(server: Server) -> Iterator[Finding]:
    """Yield what is wrong with Postgres itself and its tables."""
    if server.version < OLDEST_POSTGRES:
        yield Finding(
            check="version",
            severity="error",
            what=f"Postgres is of version {server.version}",
            why=f"Backscroll needs {OLDEST_POSTGRES} or later.",
            remedy="Upgrade Postgres.",
        )
    # migrations are numbered in a fixed width
    if (server.migration or "") < server.needed:
        yield Finding(
            check="migration",
            severity="error",
            what=f"the database is at migration {server.migration or 'none'}, this program needs {server.needed}",
            why="Processes of this version wait: the door answers 503, work piles up.",
            remedy="Run `backscroll db upgrade`.",
        )
    elif server.migration != server.needed:
        yield Finding(
            check="migration",
            severity="warning",
            what=f"the database is at migration {server.migration}, this program is of {server.needed}",
            why="It goes on beside a newer version, but not beside the one after that.",
            remedy="Update this program.",
        )
    if server.unwalled:
        yield Finding(
            check="walls",
            severity="error",
            what=f"row-level security is not forced on {', '.join(server.unwalled)}",
            why="One tenant may see another's rows.",
            remedy="As owner: ALTER TABLE … ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY.",
        )
    if server.pgvector is None:
        yield Finding(
            check="extension",
            severity="warning",
            what="the extension pgvector is not in this database",
            why="Search goes by keywords alone, and embedding stays owed.",
            remedy="As superuser: CREATE EXTENSION vector; then `backscroll db upgrade`.",
        )
    elif tuple(int(part) for part in server.pgvector.split(".")[:2]) < OLDEST_PGVECTOR:
        yield Finding(
            check="extension",
            severity="warning",
            what=f"pgvector is of version {server.pgvector}",
            why="Before 0.8 a search inside a large chat finds too little.",
            remedy="Install a newer pgvector, and ALTER EXTENSION vector UPDATE.",
        )
    if server.pgvector is not None and not server.vector_tables:
        yield Finding(
            check="extension",
            severity="error",
            what="pgvector is there, and its tables are not",
            why="Search goes by keywords alone, and embedding stays owed.",
            remedy="Run `backscroll db upgrade`.",
        )
    if server.invalid_indexes:
        yield Finding(
            check="index",
            severity="warning",
            what=f"indexes are invalid: {', '.join(server.invalid_indexes)}",
            why="An interrupted build left them: they cost writes and serve no search.",
            remedy="Run `backscroll doctor --fix` with BACKSCROLL_OWNER_DATABASE_URL set.",
            fixable=True,
        )


def clock(skew: float | None) -> Iterator[Finding]:
    """Yield a finding if the database's clock minus this machine's, in seconds, is large."""
    if skew is not None and abs(skew) > SKEW_WARNING_SECONDS:
        yield Finding(
            check="clock",
            severity="error" if abs(skew) > SKEW_ERROR_SECONDS else "warning",
            what=f"this machine's clock is {abs(skew):.0f} s {'behind' if skew > 0 else 'ahead of'} the database's",
            why="Times of senders more than 5 minutes ahead are not believed, and sessions are cut by them.",
            remedy="Let both keep time by NTP.",
        )
