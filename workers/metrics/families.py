"""Turn readings into Prometheus' families, by a pure function for each source; no label has a tenant, chat or text."""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)

from pipeline.ingest import left_out
from pipeline.llm.budget import Budget
from pipeline.operations.deployment import FLAGS
from pipeline.operations.doctor.finding import Finding, Severity
from pipeline.operations.figures import Figures
from pipeline.recall.query_log import BUCKET_SECONDS, bucket
from pipeline.store.operations import counters
from schemas.kinds import KINDS
from schemas.settings import Settings
from workers.broker import QueueStatus
from workers.metrics.counted import COUNTERS
from workers.queues import SWEPT_SECONDS

PREFIX = "backscroll_"
_SEVERITIES: tuple[Severity, ...] = ("error", "warning")
_STATUSES = ("active", "building", "standby", "retired")


def gauge(name: str, text: str, value: float) -> Metric:
    """Return a gauge without labels."""
    return GaugeMetricFamily(PREFIX + name, text, value=value)


def gauges(name: str, text: str, values: Mapping[str, float], label: str) -> Metric:
    """Return a gauge with one label."""
    family = GaugeMetricFamily(PREFIX + name, text, labels=[label])
    for value, figure in values.items():
        family.add_metric([value], figure)
    return family


def of_postgres(figures: Figures, totals: Mapping[str, float], settings: Settings) -> Iterator[Metric]:
    """Yield the metrics of Postgres: jobs, lags, counters, contexts, models, spaces and sizes, and what runs."""
    jobs = GaugeMetricFamily(
        PREFIX + "jobs", "Jobs by kind and state, each up to 100,000.", labels=["kind", "state"]
    )
    for row in figures.jobs:
        # messages in quarantine and refused payloads are dead letters only
        states = ("pending", "running", "retrying", "dead") if row.kind in KINDS else ("dead",)
        for state in states:
            jobs.add_metric([row.kind, state], getattr(row, state))
    yield jobs
    done = [row for row in figures.jobs if row.kind in KINDS]
    oldest = {row.kind: row.oldest_seconds or 0.0 for row in done}
    late = {row.kind: 0.0 if row.waits_for else row.late_seconds for row in done}
    waiting = {row.kind: row.pending + row.retrying if row.waits_for else 0 for row in done}
    yield gauges("job_oldest_seconds", "How long the oldest job has been pending.", oldest, "kind")
    yield gauges("job_late_seconds", "How long the oldest unclaimed job has been due.", late, "kind")
    yield gauge("messages_unplaced", "Accepted messages that wait to be placed.", figures.unplaced)
    yield gauges("lag_seconds", "How long what waits longest has waited.", figures.lags(), "until")
    yield from _counters(totals)
    yield gauges("provider_stopped", "1 while nobody asks the provider.", figures.providers, "provider")
    yield gauges(
        "budget_spent_ratio",
        "Spent today by the tenant nearest to its limit.",
        _spent(figures, Budget.of(settings)),
        "limit",
    )
    embedded = CounterMetricFamily(
        PREFIX + "embedded",
        "Messages, sessions and memories whose vectors were written, by space.",
        labels=["space"],
    )
    for name, status in figures.spaces.items():
        if status != "retired":
            embedded.add_metric([name], totals.get(counters.IN_SPACE + name, 0.0))
    yield embedded
    by_status = Counter(figures.spaces.values())
    yield gauges("spaces", "Embedding spaces.", {status: by_status[status] for status in _STATUSES}, "status")
    yield gauge("database_bytes", "Size of the database.", figures.database_bytes)
    sizes = {table.name: table.bytes for table in figures.tables}
    rows = {table.name: table.rows for table in figures.tables}
    yield gauges("table_bytes", "Size of a table with its indexes.", sizes, "table")
    yield gauges("table_rows", "Rows of a table, as estimated at its last ANALYZE.", rows, "table")
    running = figures.deployment
    yield gauges("jobs_waiting", "Jobs that wait, as a setting is off.", waiting, "kind")
    flags = {name: getattr(settings, name) for name in FLAGS}
    yield gauges("setting_on", "Whether a setting is on in the running processes.", flags, "setting")
    yield gauge("settings_differing", "Settings in which these differ.", len(running.differing()))
    kinds = Counter(process.kind for process in running.processes)
    yield gauges("processes", "Running processes that state their settings.", kinds, "kind")


def _spent(figures: Figures, budget: Budget) -> dict[str, float]:
    """Return, for each limit that is set, the highest share that a tenant has spent today."""
    most = {figure.name: figure.most_today for figure in figures.days if figure.most_today}
    limits = {"cost": ("model_cost_usd", budget.cost), "tokens": ("model_tokens", budget.tokens)}
    return {name: most.get(counter, 0.0) / limit for name, (counter, limit) in limits.items() if limit}


def _counters(totals: Mapping[str, float]) -> Iterator[Metric]:
    for counter in COUNTERS:
        family = CounterMetricFamily(
            PREFIX + counter.name, counter.help, labels=[counter.label] if counter.label else []
        )
        for value, names in counter.series.items():
            total = sum(totals.get(name, 0.0) for name in names)
            family.add_metric([value] if counter.label else [], total)
        yield family
    counted, buckets = 0.0, []
    for bound in BUCKET_SECONDS:
        counted += totals.get(bucket(bound), 0.0)
        buckets.append(("+Inf" if math.isinf(bound) else str(bound), counted))
    text, labels = "What was handed over and is not stored, or not whole.", ["platform", "reason"]
    family = CounterMetricFamily(PREFIX + "left_out", text, labels=labels)
    for values, items in left_out.counts(totals).items():
        family.add_metric(values, items)
    yield family
    yield HistogramMetricFamily(
        PREFIX + "context_seconds", "Time to make a context.", buckets, totals.get("context_seconds", 0.0)
    )


def of_redis(queues: QueueStatus) -> Iterator[Metric]:
    """Yield the metrics of Redis and the workers: queues, their workers, and the last sweep."""
    if not queues.queues:
        return
    yield gauges("queue_tasks", "Tasks that wait in a queue.", queues.queues, "queue")
    if queues.workers is not None:
        serving = {name: len(workers) for name, workers in queues.workers.items()}
        yield gauges("queue_workers", "Workers that serve a queue.", serving, "queue")
        yield gauges("unread_tasks", "Tasks in a list that no worker reads.", queues.unread, "list")
    swept = queues.swept_seconds_ago
    yield gauge(
        "sweep_age_seconds",
        "Age of the last sweep; a day at most.",
        SWEPT_SECONDS if swept is None else swept,
    )
    yield gauge(
        "payload_oldest_seconds", "How long the oldest payload task has waited.", queues.accept_seconds
    )


def of_doctor(findings: Sequence[Finding]) -> Iterator[Metric]:
    """Yield the number of the doctor's findings."""
    severities = Counter(finding.severity for finding in findings)
    counts: dict[str, float] = {severity: severities[severity] for severity in _SEVERITIES}
    yield gauges("doctor_findings", "What the doctor's quick checks find.", counts, "severity")
