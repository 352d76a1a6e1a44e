"""Collect the status and the monitored figures of the deployment from Postgres.

Counts stop at `COUNTED_UP_TO`, by an index; tables are estimated. The figures name no tenant, chat or text, and their
number does not grow with the chats.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection

from pipeline.operations import costs
from pipeline.operations.deployment import Deployment
from pipeline.recall.query_log import IN_BUCKET
from pipeline.store import llm_calls
from pipeline.store.connections.database import Database
from pipeline.store.jobs import backfill_rows, job_admin
from pipeline.store.operations import checks, counters, stats
from pipeline.store.operations.counters import DayFigure
from schemas.backfills import Backfill
from schemas.kinds import EMBED, SUMMARIZE

DEAD_LETTERS = 5
COUNTED_UP_TO = 100_000
"""Counting stops here for each kind and state of jobs: counting millions would take seconds."""
WEEK_DAYS = 7
MONITORED = (counters.IN_SPACE, IN_BUCKET)
"""Prefixes of counters that only Prometheus shows."""


@dataclass(frozen=True, kw_only=True)
class Postgres:
    """The server and this database."""

    version: str
    # None: search goes only by keywords
    pgvector: str | None
    size_bytes: int


@dataclass(frozen=True, kw_only=True)
class JobCounts:
    """The jobs of one kind."""

    kind: str
    # waiting for a worker, being done, waiting after a failure, given up; up to 100,000
    pending: int
    running: int
    retrying: int
    dead: int
    # how long the oldest unfinished one has been pending; None: there is none
    oldest_seconds: float | None
    # unclaimed jobs that are due, and for how long the first of them has been
    late: int
    late_seconds: float
    # the variable that keeps them waiting, as it is off in what runs
    waits_for: str | None = None

    @property
    def waiting(self) -> str | None:
        """A sentence on how many wait for what is off; None: none do."""
        count = self.pending + self.retrying if self.waits_for else 0
        return f"{count:,} jobs of {self.kind} wait, as {self.waits_for} is off" if count else None

    @property
    def any(self) -> bool:
        """Whether there are any."""
        return bool(self.pending or self.running or self.retrying or self.dead)


@dataclass(frozen=True, kw_only=True)
class DeadLetter:
    """A job that was given up, a message in quarantine, or a refused payload."""

    tenant_id: str
    kind: str
    key: str
    # of jobs only
    attempts: int | None
    dead_at: datetime
    last_error: str | None
    # the request that asked for it
    trace_id: str | None


@dataclass(frozen=True, kw_only=True)
class SpaceCounts:
    """One tenant's vectors in one embedding space."""

    space: str
    status: str
    messages: int
    sessions: int
    memories: int


@dataclass(frozen=True, kw_only=True)
class Counts:
    """Counts of one tenant's data."""

    chats: int
    messages: int
    # messages accepted but not yet placed in a session
    waiting: int
    # messages set aside, as they cannot be placed (`backscroll jobs list`)
    quarantined: int
    sessions: dict[str, int]
    memories: int
    vectors: list[SpaceCounts]


@dataclass(frozen=True, kw_only=True)
class Status:
    """The status at one moment."""

    # the database's clock
    at: datetime
    tenant: str
    postgres: Postgres
    # whether `jobs` and `dead_letters` are of all tenants, or only of this one
    all_tenants: bool
    jobs: list[JobCounts]
    # the age of the tenant's longest waiting message
    oldest_unplaced_seconds: float | None
    counts: Counts
    # the tenant's counters: since midnight (UTC), and of seven days including today
    today: dict[str, float]
    week: dict[str, float]
    dead_letters: list[DeadLetter]
    backfills: list[Backfill]
    # the tenant's calls to language models of today, and providers that are down for everybody
    models: costs.CallTotals
    stopped_providers: list[costs.StoppedProvider]


def collect(database: Database, tenant_id: str, *, all_tenants: bool) -> Status:
    """Collect the status; `all_tenants` needs the maintenance role.

    Raises `DatabaseUnavailable`, and `SettingsError` without a maintenance role.
    """
    with database.tenant(tenant_id) as connection:
        at, version, pgvector, size = stats.server(connection)
        stored = stats.counts(connection)
        counts = Counts(
            chats=stored.chats,
            messages=stored.placed + stored.waiting + stored.quarantined,
            waiting=stored.waiting,
            quarantined=stored.quarantined,
            sessions=stats.sessions_by_status(connection),
            memories=stored.memories,
            vectors=[SpaceCounts(**row._mapping) for row in stats.vectors_by_space(connection)],
        )
        oldest = stats.oldest_unplaced_seconds(connection)
        today, week = _counters(connection, 1), _counters(connection, WEEK_DAYS)
        models, stopped = costs.today(connection), costs.stopped_providers(connection)
        listed = backfill_rows.with_pending(connection, backfill_rows.listing(connection, 20))
        running = [backfill for backfill in listed if backfill.state in {"running", "paused"}]
    with database.maintenance() if all_tenants else database.tenant(tenant_id) as connection:
        kinds = [counts for counts in job_counts(connection) if counts.any]
        dead = [DeadLetter(**row._mapping) for row in job_admin.dead_letters(connection, DEAD_LETTERS)]
    return Status(
        at=at,
        tenant=tenant_id,
        postgres=Postgres(version=version, pgvector=pgvector, size_bytes=size),
        all_tenants=all_tenants,
        jobs=kinds,
        oldest_unplaced_seconds=oldest,
        counts=counts,
        today=today,
        week=week,
        dead_letters=dead,
        backfills=running,
        models=models,
        stopped_providers=stopped,
    )


def _counters(connection: Connection, days: int) -> dict[str, float]:
    totals = counters.totals(connection, days)
    return {name: value for name, value in totals.items() if not name.startswith(MONITORED)}


def job_counts(connection: Connection) -> list[JobCounts]:
    """Count the jobs of each kind that the role may see, up to `COUNTED_UP_TO`."""
    off = Deployment.of(connection).switched_off
    rows = job_admin.totals(connection, COUNTED_UP_TO)
    return [JobCounts(**row._mapping, waits_for=off(row.kind)) for row in rows]


@dataclass(frozen=True, kw_only=True)
class Progress:
    """The progress of some chats' messages into memory."""

    messages: int
    # accepted but not yet placed in a session
    waiting: int
    # of the messages checked: those with text, and those of them that have a vector
    to_embed: int
    embedded: int
    # closed sessions, and those of them that are summarized, too short, or failed
    closed: int
    summarized: int
    # jobs still to do, jobs given up, and the last error of those
    pending: int
    dead: int
    error: str | None

    @property
    def complete(self) -> bool:
        """Whether nothing more will happen to them without intervention."""
        return not self.pending and not self.waiting


def progress(
    database: Database, tenant_id: str, chat_ids: Sequence[str], latest: int | None = None
) -> Progress:
    """Measure the progress of these chats; without pgvector, vectors are not counted.

    Vectors are checked for all messages, or for the `latest` of each chat.
    """
    with database.tenant(tenant_id) as connection:
        on = Deployment.of(connection).switched_off(SUMMARIZE.name) is None
        return Progress(**stats.progress(connection, chat_ids, latest, summarizes=on)._mapping)


MAX_PROVIDERS = 20
"""Providers of models that get a series each."""


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table with its indexes."""

    name: str
    # as estimated at its last ANALYZE or VACUUM
    rows: float
    bytes: float


@dataclass(frozen=True, kw_only=True)
class Figures:
    """The figures of one moment."""

    # of every kind of job
    jobs: Sequence[JobCounts]
    # messages accepted but not yet placed, and how long the oldest has waited
    unplaced: int
    oldest_unplaced_seconds: float
    # of the days that may have changed since the last collection
    days: Sequence[DayFigure]
    # what runs; statuses of spaces, and whether providers are stopped, by name
    deployment: Deployment
    spaces: Mapping[str, str]
    providers: Mapping[str, bool]
    database_bytes: int
    tables: Sequence[Table]

    def lags(self) -> dict[str, float]:
        """Return how long the oldest message, or session, has waited to be placed, embedded and summarized."""
        waiting = {jobs.kind: 0.0 if jobs.waits_for else jobs.oldest_seconds or 0.0 for jobs in self.jobs}
        return {
            "placed": self.oldest_unplaced_seconds,
            "embedded": waiting[EMBED.name],
            "summarized": waiting[SUMMARIZE.name],
        }


def collect_figures(database: Database, seconds: float) -> Figures:
    """Collect the figures of all tenants, `seconds` after they were last collected.

    Raises `DatabaseUnavailable`, `SchemaOutdated`, and `SettingsError` without a maintenance role.
    """
    with database.maintenance() as connection:
        stats.fix_snapshot(connection)
        *_, size = stats.server(connection)
        return Figures(
            jobs=job_counts(connection),
            unplaced=stats.unplaced(connection, COUNTED_UP_TO),
            oldest_unplaced_seconds=stats.oldest_unplaced_seconds(connection) or 0.0,
            days=counters.by_day(connection, seconds),
            deployment=Deployment.of(connection),
            spaces=dict(checks.space_statuses(connection)),
            providers=llm_calls.provider_states(connection, MAX_PROVIDERS),
            database_bytes=size,
            tables=[Table(**row._mapping) for row in stats.tables(connection)],
        )
