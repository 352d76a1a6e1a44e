"""Says what is wrong with a deployment, why it matters and what to do: pure functions of facts that others collect.

Nothing here asks a server. A healthy deployment gives no findings at all.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

Severity = Literal["warning", "error"]

SKEW_WARNING_SECONDS = 2.0
SKEW_ERROR_SECONDS = 60.0
# The sweep hints every few seconds: work that is due so long has nobody to do it.
LATE_WARNING_SECONDS = 300.0
LATE_ERROR_SECONDS = 3600.0
OLDEST_POSTGRES = 15
# Below it a search inside a chat may find too little (iterative scans came with 0.8).
OLDEST_PGVECTOR = (0, 8)
FULL = 0.9
NAMED = 3


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One thing that is not as it should be."""

    check: str
    severity: Severity
    what: str
    why: str
    remedy: str
    # whether `--fix` mends it
    fixable: bool = False


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


@dataclass(frozen=True, kw_only=True)
class Spaces:
    """The embedding spaces, and the embedder that the settings name."""

    active: str | None
    building: Sequence[str]
    embedder: str
    # the embedder's space as stored: `active`, `building`, `retired`, or `other` where the name fits and no more
    embedder_status: str | None
    missing_indexes: Sequence[str] = ()
    # rows in retired spaces, by the space's name
    retired_vectors: Mapping[str, int] | None = None
    # why the model cannot be used; none: it can, or was not tried
    model_problem: str | None = None


@dataclass(frozen=True, kw_only=True)
class Broker:
    """Redis and the queues."""

    problem: str | None = None
    # none: Redis does not say
    appendonly: str | None = None
    policy: str | None = None
    used_bytes: int = 0
    # 0: no limit
    max_bytes: int = 0
    # tasks that wait, by queue, where no worker answers
    unserved: Mapping[str, int] | None = None
    refused: int = 0


@dataclass(frozen=True, kw_only=True)
class Work:
    """The owed work of one kind."""

    kind: str
    # due, and claimed by nobody
    late: int = 0
    late_seconds: float = 0.0
    dead: int = 0


@dataclass(frozen=True, kw_only=True)
class Tenant:
    """What is stored of one tenant, on a sample of its chats where that takes long."""

    tenant_id: str
    # chats whose sessions are not those of the pure function
    differing: Sequence[str] = ()
    # chats whose counters are not what is stored
    drifted: Sequence[str] = ()
    # rows that should have something made of them, and nobody owes it, by kind of work
    unowed: Mapping[str, int] | None = None
    # vectors whose row is gone or has gone into another
    orphans: int = 0


@dataclass(frozen=True, kw_only=True)
class Facts:
    """Everything about one moment; what could not be looked at is None."""

    logins: Sequence[Login]
    server: Server | None = None
    spaces: Spaces | None = None
    broker: Broker | None = None
    # the database's clock minus this machine's
    skew_seconds: float | None = None
    work: Sequence[Work] = ()
    tenants: Sequence[Tenant] = ()


def diagnose(facts: Facts) -> list[Finding]:
    """All findings, errors first."""
    found = [
        *_logins(facts.logins),
        *(_server(facts.server) if facts.server else ()),
        *(_spaces(facts.spaces) if facts.spaces else ()),
        *(_broker(facts.broker) if facts.broker else ()),
        *_clock(facts.skew_seconds),
        *_work(facts.work),
        *_tenants(facts.tenants),
    ]
    return sorted(found, key=lambda finding: finding.severity != "error")


def worst(findings: Iterable[Finding]) -> Severity | None:
    """The worst severity; None: all is well.

    >>> worst([])
    """
    severities = {finding.severity for finding in findings}
    return "error" if "error" in severities else "warning" if severities else None


def _logins(logins: Sequence[Login]) -> Iterator[Finding]:
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


def _server(server: Server) -> Iterator[Finding]:
    if server.version < OLDEST_POSTGRES:
        yield Finding(
            check="version",
            severity="error",
            what=f"Postgres is of version {server.version}",
            why=f"Backscroll needs {OLDEST_POSTGRES} or later.",
            remedy="Upgrade Postgres.",
        )
    if server.migration != server.needed:
        yield Finding(
            check="migration",
            severity="error",
            what=f"the database is at migration {server.migration or 'none'}, this program needs {server.needed}",
            why="No process of this version works on these tables.",
            remedy="Run `backscroll db upgrade`, or update the program.",
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


def _spaces(spaces: Spaces) -> Iterator[Finding]:
    if spaces.active is None:
        yield Finding(
            check="space",
            severity="error",
            what="no embedding space is active",
            why="Nothing is embedded or found by meaning.",
            remedy="Run `backscroll db upgrade` with the settings of the embedder.",
        )
    elif spaces.embedder_status in {None, "other", "retired"}:
        yield Finding(
            check="space",
            severity="error",
            what=f"the settings embed into {spaces.embedder}, and searches compare in {spaces.active}",
            why="Vectors of two spaces cannot be compared: new messages are not embedded, questions find nothing.",
            remedy="Set BACKSCROLL_EMBEDDING_PROVIDER and _MODEL as they were, or run `backscroll db upgrade` "
            "to make the new space.",
        )
    elif spaces.embedder_status == "building":
        yield Finding(
            check="space",
            severity="warning",
            what=f"the settings embed into {spaces.embedder}, which is still being built beside {spaces.active}",
            why="Searches compare in the active space, which gets nothing new from this embedder.",
            remedy="Fill it with `backscroll backfills start embed`, then make it the active one.",
        )
    if spaces.model_problem:
        yield Finding(
            check="model",
            severity="error",
            what=f"the embedding model cannot be used: {spaces.model_problem}",
            why="Messages wait for their vectors, and search goes by keywords.",
            remedy="See that the model is installed or its provider answers, and that its settings are right.",
        )
    if spaces.missing_indexes:
        yield Finding(
            check="index",
            severity="warning",
            what=f"indexes of vectors are missing: {', '.join(spaces.missing_indexes)}",
            why="Searches over everything read all vectors one by one.",
            remedy="Run `backscroll doctor --fix` with BACKSCROLL_OWNER_DATABASE_URL set.",
            fixable=True,
        )
    for name, count in (spaces.retired_vectors or {}).items():
        if count:
            yield Finding(
                check="retired",
                severity="warning",
                what=f"{count:,} vectors lie in the retired space {name}",
                why="They take room, and no search reads them.",
                remedy="Delete them once you will not go back to it: DELETE FROM …_vectors WHERE space_id = ….",
            )


def _broker(broker: Broker) -> Iterator[Finding]:
    if broker.problem is not None:
        yield Finding(
            check="redis",
            severity="error",
            what=f"Redis does not answer: {broker.problem}",
            why="Messages are accepted over HTTP, and nothing is made of them until it is back.",
            remedy="Start Redis, or correct BACKSCROLL_REDIS_URL.",
        )
        return
    if broker.appendonly == "no":
        yield Finding(
            check="redis",
            severity="warning",
            what="Redis keeps no append-only file",
            why="Payload tasks of bots that enqueue by themselves are lost when it restarts.",
            remedy="CONFIG SET appendonly yes, and the same in redis.conf.",
        )
    if broker.policy not in {None, "noeviction"}:
        yield Finding(
            check="redis",
            severity="error",
            what=f"Redis evicts keys when it is full ({broker.policy})",
            why="It would drop whole queues, with the messages in them.",
            remedy="CONFIG SET maxmemory-policy noeviction, and the same in redis.conf.",
        )
    if broker.max_bytes and broker.used_bytes > FULL * broker.max_bytes:
        yield Finding(
            check="redis",
            severity="error",
            what=f"Redis is {broker.used_bytes / broker.max_bytes:.0%} full",
            why="When it is full no task can be queued.",
            remedy="Raise maxmemory, and see whether a queue has no worker.",
        )
    if broker.refused:
        yield Finding(
            check="payloads",
            severity="warning",
            what=f"{broker.refused:,} payloads of bots could not be read",
            why="Their messages are not stored.",
            remedy="Look at them in Redis (LRANGE backscroll.dead 0 10), mend the sender, and send them again.",
        )
    for queue, tasks in (broker.unserved or {}).items():
        yield Finding(
            check="worker",
            severity="error" if tasks else "warning",
            what=f"no worker serves the queue {queue}, where {tasks:,} tasks wait",
            why="Its work is not done.",
            remedy=f"Start one: `backscroll worker {queue}`. One that is at work on a long task may not have answered.",
        )


def _clock(skew: float | None) -> Iterator[Finding]:
    if skew is not None and abs(skew) > SKEW_WARNING_SECONDS:
        yield Finding(
            check="clock",
            severity="error" if abs(skew) > SKEW_ERROR_SECONDS else "warning",
            what=f"this machine's clock is {abs(skew):.0f} s {'behind' if skew > 0 else 'ahead of'} the database's",
            why="Times of senders more than 5 minutes ahead are not believed, and sessions are cut by them.",
            remedy="Let both keep time by NTP.",
        )


def _work(work: Sequence[Work]) -> Iterator[Finding]:
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
                remedy=f"See why: `backscroll work list --kind {owed.kind}`; then `work replay` or `work drop`.",
            )


def _tenants(tenants: Sequence[Tenant]) -> Iterator[Finding]:
    for tenant in tenants:
        of = f"of tenant {tenant.tenant_id}"
        if tenant.differing:
            yield Finding(
                check="sessions",
                severity="error",
                what=f"the sessions of {len(tenant.differing)} chats {of} are not what their messages say"
                f" ({_some(tenant.differing)})",
                why="Messages belong to no session or to a wrong one, and summaries miss them.",
                remedy="Run `backscroll doctor --fix`, or `backscroll backfills start sessionize --chat …`.",
                fixable=True,
            )
        if tenant.drifted:
            yield Finding(
                check="counters",
                severity="warning",
                what=f"the counters of {len(tenant.drifted)} chats {of} have drifted ({_some(tenant.drifted)})",
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


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:NAMED]) + (" …" if len(names) > NAMED else "")
