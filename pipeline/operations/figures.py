"""Figures of the whole deployment for monitoring, read from Postgres at a cost that does not grow with it.

Counts stop at `COUNTED_UP_TO`, by an index; tables are estimated. The figures name no tenant, chat or text, and their
number does not grow with the chats.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pipeline.operations import status
from pipeline.operations.deployment import Deployment
from pipeline.operations.status import COUNTED_UP_TO, JobCounts
from pipeline.store.connections.database import Database
from pipeline.store.models import llm_limits
from pipeline.store.operations import checks, counters, stats
from pipeline.store.operations.counters import DayFigure
from schemas.kinds import EMBED, SUMMARIZE

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


def collect(database: Database, seconds: float) -> Figures:
    """Collect the figures of all tenants, `seconds` after they were last collected.

    Raises `DatabaseUnavailable`, `SchemaOutdated`, and `SettingsError` without a maintenance role.
    """
    with database.maintenance() as connection:
        stats.fix_snapshot(connection)
        *_, size = stats.server(connection)
        return Figures(
            jobs=status.job_counts(connection),
            unplaced=stats.unplaced(connection, COUNTED_UP_TO),
            oldest_unplaced_seconds=stats.oldest_unplaced_seconds(connection) or 0.0,
            days=counters.by_day(connection, seconds),
            deployment=Deployment.of(connection),
            spaces=dict(checks.space_statuses(connection)),
            providers=llm_limits.states(connection, MAX_PROVIDERS),
            database_bytes=size,
            tables=[Table(**row._mapping) for row in stats.tables(connection)],
        )
