"""The collector of the last readings of Postgres, Redis and the doctor for Prometheus."""

import shutil
import time
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from pipeline.operations import figures
from pipeline.operations.doctor import collect
from pipeline.operations.doctor.diagnose import diagnose
from pipeline.operations.doctor.facts import Facts, Login
from pipeline.operations.doctor.finding import Finding
from pipeline.operations.figures import Figures
from pipeline.store.connections.database import Database
from schemas.errors import DatabaseUnavailable
from schemas.settings import Settings
from workers import broker
from workers.broker import QueueStatus
from workers.metrics import families
from workers.metrics.counted import Totals
from workers.metrics.families import gauge, gauges
from workers.metrics.source import Source

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
        self._postgres = Source("postgres", self._read_postgres, read_seconds)
        self._redis = Source("redis", partial(broker.look, settings, workers=True), read_seconds)
        self._doctor = Source(
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
        collected = figures.collect(self._database, now - self._read_at)
        self._read_at = now
        return collected, self._totals.add(collected.days)

    def _sources(self) -> tuple[Source[Any], ...]:
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
