"""Costs of language models by day, model, purpose or tenant, today's against the budget, and a backfill's estimate."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal

from sqlalchemy import Connection

from pipeline.clients import http_embedder
from pipeline.llm.ledger import Budget, Prices
from pipeline.llm.limits import Limits
from pipeline.store import llm_calls
from pipeline.store.connections.database import Database
from pipeline.store.jobs import backfill_rows
from pipeline.store.operations import counters
from schemas.vectors import EmbeddingSpace

Group = Literal["day", "model", "purpose", "tenant"]

PROMPT_TOKENS = 500
"""Estimated tokens of a summary's prompt besides the messages."""
ANSWER_TOKENS = 300
"""Estimated tokens of a summary before any was made."""
WEEK_DAYS = 7
SERVERS = tuple(http_embedder.DEFAULT_MODELS)
"""Embedding providers that may have a price."""


@dataclass(frozen=True, kw_only=True)
class CallTotals:
    """The totals of some calls."""

    # the day, model, purpose or tenant; empty for a total
    name: str
    # without those for which a kept answer was reused
    calls: int
    failed: int
    reused: int
    input_tokens: int
    output_tokens: int
    # in US dollars, without calls of models whose price is not known
    cost: float
    unpriced: int
    # of the answered calls; None: there are none
    mean_seconds: float | None


@dataclass(frozen=True, kw_only=True)
class Today:
    """What a tenant has spent since midnight (UTC), with running calls at their estimates, and what it may spend."""

    cost: float
    tokens: int
    budget_cost: float | None
    budget_tokens: int | None


@dataclass(frozen=True, kw_only=True)
class Costs:
    """The totals of the calls of the last days."""

    # None: all tenants
    tenant: str | None
    days: int
    by: Group
    rows: Sequence[CallTotals]
    total: CallTotals
    today: Today


@dataclass(frozen=True, kw_only=True)
class StoppedProvider:
    """A provider that is paused, as it did not answer."""

    provider: str
    until: datetime


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """The estimated time and cost of a backfill."""

    model: str
    rows: int
    # of their texts
    tokens: int
    # None: nothing of the kind was done lately
    seconds: float | None
    # in US dollars; None: the model's price is not known
    cost: float | None


def collect(
    database: Database, tenant_id: str, *, by: Group, days: int, budget: Budget, all_tenants: bool = False
) -> Costs:
    """Add up the calls of the last `days` days, of a tenant or, as the maintenance role, of all."""
    with database.maintenance() if all_tenants else database.tenant(tenant_id) as connection:
        rows = [CallTotals(**row._mapping) for row in llm_calls.totals(connection, by, days)]
    with database.tenant(tenant_id) as connection:
        spent = llm_calls.spent_today(connection, tenant_id)
    return Costs(
        tenant=None if all_tenants else tenant_id,
        days=days,
        by=by,
        rows=rows,
        total=_total(rows),
        today=Today(
            cost=spent.cost, tokens=spent.tokens, budget_cost=budget.cost, budget_tokens=budget.tokens
        ),
    )


def today(connection: Connection) -> CallTotals:
    """Add up one tenant's calls of today (UTC)."""
    return _total([CallTotals(**row._mapping) for row in llm_calls.totals(connection, "day", 1)])


def _total(rows: Sequence[CallTotals]) -> CallTotals:
    answered = {row.name: row.calls - row.failed for row in rows if row.mean_seconds is not None}
    seconds = sum(answered[row.name] * (row.mean_seconds or 0.0) for row in rows if row.name in answered)
    return CallTotals(
        name="",
        calls=sum(row.calls for row in rows),
        failed=sum(row.failed for row in rows),
        reused=sum(row.reused for row in rows),
        input_tokens=sum(row.input_tokens for row in rows),
        output_tokens=sum(row.output_tokens for row in rows),
        cost=sum(row.cost for row in rows),
        unpriced=sum(row.unpriced for row in rows),
        mean_seconds=seconds / sum(answered.values()) if sum(answered.values()) else None,
    )


def stopped_providers(connection: Connection) -> list[StoppedProvider]:
    return [
        StoppedProvider(provider=row.provider, until=row.stopped_until)
        for row in llm_calls.stopped_providers(connection)
        if row.stopped_until is not None
    ]


def estimate_embedding(
    connection: Connection,
    spaces: Sequence[EmbeddingSpace],
    counted: backfill_rows.Tokens,
    prices: Prices,
    measured: tuple[str, str],
) -> Estimate:
    """Estimate embedding texts into these spaces, of which those of servers cost money."""
    costs = [prices.cost(space.model, counted.tokens, 0) for space in spaces if space.provider in SERVERS]
    known = [cost for cost in costs if cost is not None]
    free = estimate_free(connection, counted, ", ".join(space.model for space in spaces), measured)
    return replace(free, cost=sum(known) if len(known) == len(costs) else None)


def estimate_free(
    connection: Connection, counted: backfill_rows.Tokens, model: str, measured: tuple[str, str]
) -> Estimate:
    """Estimate the time that something without a language model takes from the last week's.

    `measured` are the counters of rows done and of the seconds that took.
    """
    week = counters.totals(connection, WEEK_DAYS)
    done, took = (week.get(name, 0.0) for name in measured)
    seconds = took / done * counted.rows if done else None
    return Estimate(model=model, rows=counted.rows, tokens=counted.tokens, seconds=seconds, cost=0.0)


def estimate_calls(
    connection: Connection,
    tenant_id: str,
    model: str,
    counted: backfill_rows.Tokens,
    *,
    prices: Prices,
    limits: Limits,
    at_once: int,
) -> Estimate:
    """Estimate summarizing sessions by a model, from its latest answers, with `at_once` calls at a time."""
    latest = llm_calls.pace(connection, tenant_id, model)
    prompted = counted.tokens + PROMPT_TOKENS * counted.rows
    answered = round((latest.output_tokens or ANSWER_TOKENS) * counted.rows)
    seconds: float | None = None
    if latest.seconds is not None:
        seconds = max(
            latest.seconds * counted.rows / at_once,
            60 * counted.rows / limits.requests_per_minute if limits.requests_per_minute else 0.0,
            60 * (prompted + answered) / limits.tokens_per_minute if limits.tokens_per_minute else 0.0,
        )
    return Estimate(
        model=model,
        rows=counted.rows,
        tokens=counted.tokens,
        seconds=seconds,
        cost=prices.cost(model, prompted, answered),
    )
