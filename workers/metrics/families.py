"""Turn readings and daily counters into Prometheus' families; no label has a tenant, chat or text."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)

from pipeline.ingest import accept
from pipeline.llm.ledger import Budget
from pipeline.operations.deployment import FLAGS
from pipeline.operations.doctor.facts import Finding, Severity
from pipeline.operations.status import Figures
from pipeline.recall.query_log import BUCKET_SECONDS, SOURCES, STAGES, bucket
from pipeline.store.operations import counters
from pipeline.store.operations.counters import DayFigure
from schemas.kinds import KINDS
from schemas.settings import Settings
from workers.broker import QueueStatus
from workers.queues import SWEPT_SECONDS

PREFIX = "backscroll_"
_SEVERITIES: tuple[Severity, ...] = ("error", "warning")
_STATUSES = ("active", "building", "standby", "retired")


def gauge(name: str, text: str, value: float) -> Metric:
    """Return a gauge without labels."""
    return GaugeMetricFamily(PREFIX + name, text, value=value)


def gauges(name: str, text: str, values: Mapping[str, float], label: str) -> Metric:
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
    for values, items in accept.left_out_counts(totals).items():
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


@dataclass(frozen=True)
class CounterFamily:
    """A family of Prometheus counters."""

    # without `backscroll_` and `_total`
    name: str
    help: str
    # the daily counters that make up each series, by its label; one series without labels under ""
    series: Mapping[str, tuple[str, ...]]
    label: str = ""


def _one(name: str, text: str, daily: str = "") -> CounterFamily:
    return CounterFamily(name, text, {"": (daily or name,)})


def _several(name: str, text: str, label: str, **daily: str) -> CounterFamily:
    return CounterFamily(name, text, {value: (counter,) for value, counter in daily.items()}, label)


_SOURCES: dict[str, tuple[str, ...]] = {
    source: tuple(f"tokens_{block}" for block, block_source in SOURCES.items() if block_source == source)
    for source in sorted(set(SOURCES.values()))
}
COUNTERS = (
    _several(
        *("messages", "Messages handed over, by what became of them.", "outcome"),
        accepted="messages_accepted",
        known="messages_known",
        edited="messages_edited",
        deleted="messages_deleted",
        quarantined="messages_quarantined",
    ),
    _one("texts_masked", "Texts stored with something masked in them."),
    _one("payloads_refused", "Payloads from the queue that could not be accepted."),
    _several(
        *("sessions", "Sessions begun and ended.", "change"),
        opened="sessions_opened",
        closed="sessions_closed",
    ),
    _several(
        *("summaries", "Tries to summarize a session, by what became of them.", "outcome"),
        created="session_summaries_created",
        failed="session_summary_failures",
        extracted="session_summary_fallbacks",
        skipped="session_summary_skipped_small",
    ),
    _one("summary_seconds", "Time that summaries took.", "session_summary_seconds"),
    _one("embeddings_made", "Vectors made by a model."),
    _one("embedding_seconds", "Time that embedding took."),
    CounterFamily(
        "job_failures", "Failed tries of jobs.", {kind: (f"{kind}_failures",) for kind in KINDS}, "kind"
    ),
    _one("facts_learned", "Facts learned from sessions."),
    _one("forgotten", "Requests to forget that were done."),
    _several(
        *("contexts", "Contexts, by how surely they answer the question.", "evidence"),
        strong="contexts_strong",
        weak="contexts_weak",
        none="contexts_none",
        unjudged="contexts_unjudged",
    ),
    _one("contexts_degraded", "Contexts that lack something and say so."),
    _one("contexts_on_replica", "Contexts that were read from the standby."),
    _one("contexts_empty", "Contexts with nothing but the question."),
    CounterFamily(
        *("context_stage_seconds", "Time that contexts took, by stage."),
        {stage: (f"context_{stage}_seconds",) for stage in ("ask", *STAGES)},
        "stage",
    ),
    CounterFamily("context_tokens", "Tokens shown in contexts, by source.", _SOURCES, "source"),
    _one("answers_reported", "Answers that bots reported."),
    _one("model_calls", "Calls to language models and embedding servers."),
    _one("model_failures", "Calls among them that failed."),
    _one("model_answers_reused", "Answers that were kept and made a call unnecessary."),
    _one("model_tokens", "Tokens to and from models."),
    _one("model_cost_dollars", "US dollars that calls cost, by known prices.", "model_cost_usd"),
    _one("model_seconds", "Time that calls took."),
)


class Totals:
    """Totals since this process started.

    Daily counters decrease when a tenant is forgotten and vanish when they are pruned, so only their growth is added
    up; a restart begins at 0, which Prometheus expects of counters.
    """

    def __init__(self) -> None:
        self._last: dict[tuple[str, str], float] | None = None
        self._totals: dict[str, float] = {}

    def add(self, days: Iterable[DayFigure]) -> Mapping[str, float]:
        """Add the figures' growth since the last call; return the totals by name."""
        current = {(figure.day, figure.name): figure.total for figure in days}
        last = current if self._last is None else self._last
        totals = dict(self._totals)
        for key, value in current.items():
            name = key[1]
            totals[name] = totals.get(name, 0.0) + max(0.0, value - last.get(key, 0.0))
        self._last, self._totals = current, totals
        return totals
