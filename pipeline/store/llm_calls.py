"""SQL of calls to language models: the ledger, answers that are kept until used, and the state of each provider."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
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


_FIND = text("""
    SELECT answer, truncated, input_tokens, output_tokens FROM llm_answers
    WHERE tenant_id = :tenant_id AND model = :model AND prompt_hash = :prompt_hash
""")
# Whoever erases something of a chat has locked it: the claim is looked at once they have fenced it.
_HOLD_CHAT = text("""
    SELECT 1 FROM chats WHERE tenant_id = :tenant_id AND chat_id = :chat_id AND moved_to IS NULL FOR KEY SHARE
""")
_KEEP = text("""
    INSERT INTO llm_answers (tenant_id, model, prompt_hash, chat_id, kind, key, answer, truncated, input_tokens,
        output_tokens)
    VALUES (:tenant_id, :model, :prompt_hash, :chat_id, :kind, :key, :text, :truncated, :input_tokens, :output_tokens)
    ON CONFLICT DO NOTHING
""")
_DROP_OF_JOB = text("DELETE FROM llm_answers WHERE chat_id = :chat AND kind = :kind AND key = :key")


class KeptAnswer(NamedTuple):
    """What a model answered, and the tokens that were used."""

    text: str
    truncated: bool
    input_tokens: int
    output_tokens: int


def find_answer(connection: Connection, entry: Entry) -> KeptAnswer | None:
    """Return the answer that was kept for a call's prompt."""
    row = run(connection, _FIND, **vars(entry)).one_or_none()
    return None if row is None else KeptAnswer(*row)


def hold_chat(connection: Connection, entry: Entry) -> bool:
    """Block erasure in a call's chat until the transaction ends; return False if the chat is gone or has moved."""
    return holds(connection, _HOLD_CHAT, **vars(entry))


def keep_answer(connection: Connection, entry: Entry, claim: Claim, answer: KeptAnswer) -> None:
    """Keep the answer to a call for the job that asked for it."""
    run(connection, _KEEP, kind=claim.kind, key=claim.key, **(vars(entry) | answer._asdict()))


def drop_answers_of_job(connection: Connection, chat_id: str, claim: Claim) -> None:
    """Delete the answers that a job has made use of."""
    run(connection, _DROP_OF_JOB, chat=chat_id, kind=claim.kind, key=claim.key)


def drop_answers_of_chat(connection: Connection, chat_id: str) -> None:
    """Delete the answers that may quote a chat."""
    run(connection, "DELETE FROM llm_answers WHERE chat_id = :chat", chat=chat_id)


_COLUMNS = "provider, failures, stops, stopped_at, stopped_until, probe_until, requests_until, tokens_until"
_LOCK = text(f"SELECT {_COLUMNS} FROM llm_providers WHERE provider = :provider FOR NO KEY UPDATE")
_PROVIDER_INSERT = text("INSERT INTO llm_providers (provider) VALUES (:provider) ON CONFLICT DO NOTHING")
_SAVE = text("""
    UPDATE llm_providers SET failures = :failures, stops = :stops, stopped_at = :stopped_at,
        stopped_until = :stopped_until, probe_until = :probe_until, requests_until = :requests_until,
        tokens_until = :tokens_until
    WHERE provider = :provider
""")
_STOPPED = text(f"""
    SELECT {_COLUMNS} FROM llm_providers WHERE stopped_until > clock_timestamp() ORDER BY provider
""")
_STATES = text("""
    SELECT provider, coalesce(stopped_until > clock_timestamp(), false) FROM llm_providers
    ORDER BY provider LIMIT :at_most
""")
_FREE_EXPIRED = text("DELETE FROM llm_slots WHERE provider = :provider AND expires_at <= :now")
_COUNT_SLOTS = text("SELECT count(*) FROM llm_slots WHERE provider = :provider AND expires_at > :now")
_TAKE_SLOT = text("INSERT INTO llm_slots (provider, expires_at) VALUES (:provider, :expires_at) RETURNING id")


@dataclass(frozen=True, kw_only=True)
class Provider:
    provider: str
    # calls without an answer, in a row
    failures: int = 0
    # how often calls were stopped since it last answered, and when they were last
    stops: int = 0
    stopped_at: datetime | None = None
    # no calls until then; afterwards one probe, until `probe_until` at the latest
    stopped_until: datetime | None = None
    probe_until: datetime | None = None
    # when the permitted rate will have covered the requests and tokens so far
    requests_until: datetime | None = None
    tokens_until: datetime | None = None


def lock_provider(connection: Connection, provider: str) -> Provider:
    """Lock and return the state of a provider."""
    row = run(connection, _LOCK, provider=provider).one_or_none()
    if row is None:
        run(connection, _PROVIDER_INSERT, provider=provider)
        row = run(connection, _LOCK, provider=provider).one()
    return Provider(**row._mapping)


def save_provider(connection: Connection, known: Provider) -> None:
    """Save the state of a locked provider."""
    run(connection, _SAVE, **vars(known))


def stopped_providers(connection: Connection) -> list[Provider]:
    """Return the providers that nobody calls at present."""
    return [Provider(**row._mapping) for row in run(connection, _STOPPED)]


def provider_states(connection: Connection, at_most: int) -> dict[str, bool]:
    """Return of each provider whether nobody calls it at present."""
    return {str(provider): bool(stopped) for provider, stopped in run(connection, _STATES, at_most=at_most)}


def count_slots(connection: Connection, provider: str, now: datetime) -> int:
    """Count the running calls to a provider."""
    return number(connection, _COUNT_SLOTS, provider=provider, now=now)


def take_slot(connection: Connection, provider: str, now: datetime, expires_at: datetime) -> int:
    """Take a slot for a call about to be made; return its id."""
    run(connection, _FREE_EXPIRED, provider=provider, now=now)
    return number(connection, _TAKE_SLOT, provider=provider, expires_at=expires_at)


def free_slot(connection: Connection, slot: int) -> None:
    """Free the slot of a call that has ended."""
    run(connection, "DELETE FROM llm_slots WHERE id = :id", id=slot)
