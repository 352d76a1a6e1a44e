"""SQL of the ledger of calls to language models: what each was for, how it ended and what it cost."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from sqlalchemy import Connection, Row, text

from pipeline.store.connections.statements import holds, number, run
from pipeline.store.jobs.jobs import Claim

UNANSWERED_TRIES = 3
"""Attempts of one prompt without an answer after which the prompt may be at fault."""
UNANSWERED_SECONDS = 3600
"""How long a prompt is tried if no other prompt shows whether the provider answers at all."""

# Any constant will do; with the tenant's name it makes one advisory lock for each tenant's budget.
_BUDGET = 7_203_115
_LOCK_BUDGET = text(f"SELECT pg_advisory_xact_lock(hashtextextended(:tenant, {_BUDGET}))")
_TODAY = "called_at >= date_trunc('day', now(), 'UTC')"
_SPENT = text(f"""
    SELECT coalesce(sum(cost), 0) AS cost, coalesce(sum(input_tokens + output_tokens), 0)::bigint AS tokens,
        extract(epoch FROM date_trunc('day', now(), 'UTC') + interval '1 day' - now())::float8 AS seconds_left
    FROM llm_calls WHERE tenant_id = :tenant AND {_TODAY}
""")
_INSERT = text("""
    INSERT INTO llm_calls (tenant_id, chat_id, purpose, model, provider, outcome, input_tokens, output_tokens, cost,
        prompt_hash, latency_ms)
    VALUES (:tenant_id, :chat_id, :purpose, :model, :provider, :outcome, :input_tokens, :output_tokens, :cost,
        :prompt_hash, :latency)
    RETURNING id
""")
_SETTLE = text("""
    UPDATE llm_calls SET outcome = :outcome, input_tokens = :input_tokens, output_tokens = :output_tokens,
        cost = :cost, latency_ms = :latency, request_id = :request_id
    WHERE tenant_id = :tenant_id AND id = :id
""")
_IS_TO_BLAME = text("""
    WITH tries AS (
        SELECT called_at FROM llm_calls WHERE tenant_id = :tenant_id AND called_at > now() - interval '1 day'
            AND provider = :provider AND prompt_hash = :prompt_hash AND outcome = 'unavailable'
    )
    SELECT count(*) >= :tries AND (max(called_at) - min(called_at) >= make_interval(secs => :seconds) OR EXISTS (
        SELECT 1 FROM llm_calls c WHERE c.tenant_id = :tenant_id AND c.provider = :provider
            AND c.outcome = 'answered' AND c.called_at > (SELECT min(called_at) FROM tries)
            AND c.called_at < (SELECT max(called_at) FROM tries)))
    FROM tries
""")
_FORGET_CHAT = text("""
    UPDATE llm_calls SET chat_id = NULL, prompt_hash = NULL, request_id = NULL
    WHERE tenant_id = :tenant AND chat_id = :chat
""")
GROUPS = {
    "day": "to_char(called_at AT TIME ZONE 'UTC', 'YYYY-MM-DD')",
    "model": "model",
    "purpose": "purpose",
    "tenant": "tenant_id",
}
"""Ways to group costs, with their SQL expressions."""
_FIGURES = """
    count(*) FILTER (WHERE outcome <> 'reused') AS calls,
    count(*) FILTER (WHERE outcome IN ('unavailable', 'failed', 'rejected')) AS failed,
    count(*) FILTER (WHERE outcome = 'reused') AS reused,
    coalesce(sum(input_tokens), 0)::bigint AS input_tokens,
    coalesce(sum(output_tokens), 0)::bigint AS output_tokens,
    coalesce(sum(cost), 0)::float8 AS cost,
    count(*) FILTER (WHERE cost IS NULL) AS unpriced,
    (avg(latency_ms) FILTER (WHERE outcome = 'answered') / 1000)::float8 AS mean_seconds
"""
_WITHIN = "called_at >= date_trunc('day', now(), 'UTC') - make_interval(days => :days - 1)"
_PACE = text("""
    SELECT count(*) AS calls, avg(output_tokens)::float8 AS output_tokens,
        (avg(latency_ms) / 1000)::float8 AS seconds
    FROM (SELECT output_tokens, latency_ms FROM llm_calls
        WHERE tenant_id = :tenant AND model = :model AND outcome = 'answered'
            AND called_at > now() - interval '30 days'
        ORDER BY called_at DESC LIMIT 1000) latest
""")


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A call in the ledger."""

    tenant_id: str
    purpose: str
    model: str
    provider: str
    chat_id: str | None = None
    claim: Claim | None = None
    prompt_hash: bytes | None = None
    # as estimated: those of the answer are the most that it may have
    input_tokens: int = 0
    output_tokens: int = 0
    # in US dollars; none: the model's price is not known
    cost: float | None = 0.0
    # the provider's, once it has answered
    request_id: str | None = None
    # once it is inserted
    id: int = 0


class Spent(NamedTuple):
    """The cost of a tenant's calls today (UTC), with running calls at their estimates."""

    cost: float
    tokens: int
    # until the next day
    seconds_left: float


def lock_budget(connection: Connection, tenant_id: str) -> None:
    """Lock a tenant's budget until the transaction ends, so that nobody else spends from it."""
    run(connection, _LOCK_BUDGET, tenant=tenant_id)


def spent_today(connection: Connection, tenant_id: str) -> Spent:
    """Return what today's calls of a tenant have cost."""
    row = run(connection, _SPENT, tenant=tenant_id).one()
    return Spent(cost=float(row.cost), tokens=int(row.tokens), seconds_left=float(row.seconds_left))


def insert(connection: Connection, entry: Entry, *, reused: bool = False) -> Entry:
    """Record a call about to be made, with estimates, or the reuse of an answer; return it with its id."""
    noted = number(
        connection,
        _INSERT,
        **vars(entry),
        outcome="reused" if reused else "pending",
        latency=0.0 if reused else None,
    )
    return replace(entry, id=noted)


def settle(connection: Connection, entry: Entry, outcome: str, seconds: float) -> None:
    """Record the outcome of a call, its duration and its cost."""
    run(connection, _SETTLE, **vars(entry), outcome=outcome, latency=seconds * 1000)


def is_to_blame(connection: Connection, entry: Entry) -> bool:
    """Tell whether a provider has no answer to this prompt while it answers others of the tenant, or for too long."""
    limits = {"tries": UNANSWERED_TRIES, "seconds": UNANSWERED_SECONDS}
    return holds(connection, _IS_TO_BLAME, **vars(entry), **limits)


def forget_chat(connection: Connection, tenant_id: str, chat_id: str) -> None:
    """Remove a chat's id from its calls, and keep their costs."""
    run(connection, _FORGET_CHAT, tenant=tenant_id, chat=chat_id)


def totals(connection: Connection, by: str, days: int) -> Sequence[Row[Any]]:
    """Return the figures of the last `days` days by one of `GROUPS`, over what the role may see.

    The columns are `name`, `calls`, `failed`, `reused`, `input_tokens`, `output_tokens`, `cost`, `unpriced` (calls of
    models without a known price) and `mean_seconds` (of those answered). The latest day comes first, else the dearest.
    """
    order = "name DESC" if by == "day" else "cost DESC, name"
    statement = text(f"""
        SELECT {GROUPS[by]} AS name, {_FIGURES} FROM llm_calls WHERE {_WITHIN} GROUP BY 1 ORDER BY {order}
    """)
    return run(connection, statement, days=days).all()


def pace(connection: Connection, tenant_id: str, model: str) -> Row[Any]:
    """Return `calls`, and the means of `output_tokens` and `seconds`, of a model's latest answers."""
    return run(connection, _PACE, tenant=tenant_id, model=model).one()
