"""Prometheus counters made of the daily counters, with totals that never decrease."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pipeline.recall.query_log import SOURCES, STAGES
from pipeline.store.operations.counters import DayFigure
from schemas.kinds import KINDS


@dataclass(frozen=True)
class Counter:
    """A family of Prometheus counters."""

    # without `backscroll_` and `_total`
    name: str
    help: str
    # the daily counters that make up each series, by its label; one series without labels under ""
    series: Mapping[str, tuple[str, ...]]
    label: str = ""


def _one(name: str, text: str, daily: str = "") -> Counter:
    return Counter(name, text, {"": (daily or name,)})


def _several(name: str, text: str, label: str, **daily: str) -> Counter:
    return Counter(name, text, {value: (counter,) for value, counter in daily.items()}, label)


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
    Counter("job_failures", "Failed tries of jobs.", {kind: (f"{kind}_failures",) for kind in KINDS}, "kind"),
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
    _one("contexts_empty", "Contexts with nothing but the question."),
    Counter(
        *("context_stage_seconds", "Time that contexts took, by stage."),
        {stage: (f"context_{stage}_seconds",) for stage in ("ask", *STAGES)},
        "stage",
    ),
    Counter("context_tokens", "Tokens shown in contexts, by source.", _SOURCES, "source"),
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
