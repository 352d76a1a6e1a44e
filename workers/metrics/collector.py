"""Read Postgres, Redis and the doctor in the background, and collect the last readings for Prometheus."""

import shutil
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Generic, TypeVar

import structlog
from prometheus_client.core import Metric
from prometheus_client.registry import Collector
from sqlalchemy.exc import SQLAlchemyError

from pipeline.jobs.failures import reason_of
from pipeline.operations import status
from pipeline.operations.doctor import collect
from pipeline.operations.doctor.diagnose import diagnose
from pipeline.operations.doctor.facts import Facts, Finding, Login
from pipeline.operations.status import Figures
from pipeline.store.connections.database import Database
from schemas.errors import BackscrollError, DatabaseUnavailable
from schemas.settings import Settings
from workers import broker
from workers.broker import QueueStatus
from workers.logging import OUTAGES
from workers.metrics import families
from workers.metrics.families import Totals, gauge, gauges

log = structlog.get_logger(OUTAGES)

T = TypeVar("T")

STALE_READINGS = 3
"""A reading older than so many intervals is not shown: the server or the reader hangs."""
GRACE_SECONDS = 15.0
"""Added to that, as a reading itself takes time."""


@dataclass(frozen=True, kw_only=True)
class Reading(Generic[T]):
    """The value of a source at one moment."""

    # of the monotonic clock
    at: float
    # how long it took
    seconds: float
    # None: it could not be read
    value: T | None


class PolledSource(Generic[T]):
    """A source read at an interval by its own thread, so that one that hangs does not delay the others."""

    def __init__(
        self, name: str, read: Callable[[], T], every_seconds: float, first_after_seconds: float = 0.0
    ) -> None:
        self.name = name
        self._read = read
        self._every_seconds, self._first_after_seconds = every_seconds, first_after_seconds
        self._began = time.monotonic()
        # replaced as a whole, never changed
        self._reading: Reading[T] | None = None

    def start(self) -> None:
        threading.Thread(target=self._run, name=f"read-{self.name}", daemon=True).start()

    def last(self) -> Reading[T]:
        """Return the last reading, without a value if it is too old or there was none yet."""
        reading, now = self._reading, time.monotonic()
        if reading is None:
            return Reading(at=self._began, seconds=0.0, value=None)
        if now - reading.at > STALE_READINGS * self._every_seconds + GRACE_SECONDS:
            return Reading(at=reading.at, seconds=reading.seconds, value=None)
        return reading

    def _run(self) -> None:
        time.sleep(self._first_after_seconds)
        while True:
            started = time.monotonic()
            value: T | None = None
            try:
                value = self._read()
            except (BackscrollError, SQLAlchemyError) as error:
                log.warning("figures_not_read", source=self.name, error=reason_of(error))
            except Exception:
                # a defect: it is logged, and the next reading may succeed
                log.exception("figures_not_read", source=self.name)
            now = time.monotonic()
            self._reading = Reading(at=now, seconds=now - started, value=value)
            time.sleep(max(0.0, started + self._every_seconds - now))


READ_SECONDS = 15.0
DOCTOR_SECONDS = 300.0
STARTING_SECONDS = 60.0
"""Delay of the doctor's first run: workers that start together with this process are not missing."""
_LOGINS = ("BACKSCROLL_DATABASE_URL", "BACKSCROLL_MAINTENANCE_DATABASE_URL")


def examine(settings: Settings, database: Database) -> list[Finding]:
    """Return the findings of those of the doctor's checks whose cost does not grow with the data."""
    redis = broker.facts(settings, broker.look(settings, workers=True))
    try:
        server = collect.server(database)
        logins = [Login(setting=name) for name in _LOGINS]
        if server.is_lacking or server.read_only or (server.migration or "") < server.needed:
            return diagnose(Facts(logins=logins, server=server, broker=redis))
        return diagnose(
            Facts(
                logins=logins,
                server=server,
                broker=redis,
                skew_seconds=collect.skew_seconds(database),
                jobs=collect.late_jobs(database, None),
                stopped_providers=collect.stopped_providers(database),
            )
        )
    except DatabaseUnavailable as error:
        return diagnose(
            Facts(logins=[Login(setting=name, problem=str(error)) for name in _LOGINS], broker=redis)
        )


class FiguresCollector(Collector):
    """The one collector: it renders the last readings, so a scrape never waits for a server."""

    def __init__(
        self, settings: Settings, database: Database, read_seconds: float, doctor_seconds: float
    ) -> None:
        self._settings = settings
        self._database, self._totals, self._read_at = database, Totals(), time.monotonic()
        self._postgres = PolledSource("postgres", self._read_postgres, read_seconds)
        self._redis = PolledSource("redis", partial(broker.look, settings, workers=True), read_seconds)
        self._doctor = PolledSource(
            *("doctor", partial(examine, settings, database), doctor_seconds),
            first_after_seconds=min(STARTING_SECONDS, doctor_seconds),
        )

    def start(self) -> None:
        """Start reading all sources."""
        for source in self._sources():
            source.start()

    def _read_postgres(self) -> tuple[Figures, Mapping[str, float]]:
        """Read the figures of Postgres, and add up the growth of its counters."""
        now = time.monotonic()
        collected = status.collect_figures(self._database, now - self._read_at)
        self._read_at = now
        return collected, self._totals.add(collected.days)

    def _sources(self) -> tuple[PolledSource[Any], ...]:
        return self._postgres, self._redis, self._doctor

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics of the last readings, but none of a source that failed or hangs."""
        now = time.monotonic()
        readings = {source.name: source.last() for source in self._sources()}
        ages = {name: now - reading.at for name, reading in readings.items()}
        took = {name: reading.seconds for name, reading in readings.items()}
        yield gauges("snapshot_age_seconds", "How long ago a source was read.", ages, "source")
        yield gauges("snapshot_seconds", "How long it took to read a source.", took, "source")
        postgres: tuple[Figures, Mapping[str, float]] | None = readings["postgres"].value
        redis: QueueStatus | None = readings["redis"].value
        findings: list[Finding] | None = readings["doctor"].value
        yield gauge("postgres_up", "Whether Postgres could be read.", postgres is not None)
        yield gauge("redis_up", "Whether Redis takes tasks.", redis is not None and redis.problem is None)
        if postgres is not None:
            yield from families.of_postgres(*postgres, postgres[0].deployment.over(self._settings))
        if redis is not None:
            yield from families.of_redis(redis)
        if findings is not None:
            yield from families.of_doctor(findings)
        yield from _disk(self._settings.data_dir)


def _disk(data_dir: Path) -> Iterator[Metric]:
    """Yield the disk space of an embedded Postgres; another server's disk is out of reach."""
    if any(data_dir.glob("postgres-[0-9][0-9]")):
        disk = shutil.disk_usage(data_dir)
        yield gauge("data_free_bytes", "Free bytes where the data folder is.", disk.free)
        yield gauge("data_free_ratio", "The same, as a share of the disk.", disk.free / disk.total)
