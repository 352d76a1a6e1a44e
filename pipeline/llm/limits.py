"""Limits of a model provider that all workers share: concurrent calls, rates, and a circuit breaker.

A provider's state is a row in Postgres. `enter` before a call and `leave` after it are parts of short transactions;
none is open during the call. A provider that leaves several calls in a row unanswered, or names a retry time, is
paused; then one call probes it, and the others follow if it answers.
"""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Self

from sqlalchemy import Connection

from pipeline.store import llm_calls as store
from pipeline.store.chats import chats
from pipeline.store.llm_calls import Provider
from schemas.settings import Settings

FAILURES_BEFORE_PAUSE = 5
"""Unanswered calls in a row, over all workers, after which a provider is paused."""
FIRST_STOP_SECONDS = 15.0
LAST_STOP_SECONDS = 600.0
MAX_RETRY_AFTER_SECONDS = 3600.0
"""A provider that names a longer pause is called again after this."""
BURST_SECONDS = 6.0
"""A burst may use what the rate permits in this time, and so a tenth more in a minute."""
POLL_SECONDS = 0.25
"""How often to check for a free slot when all concurrent calls are in use."""
BUSY_SECONDS = 5.0
"""Delay before a call is retried that found no free slot."""
MARGIN = timedelta(seconds=10)
"""Added to a call's timeout for what goes before and after it; only a killed worker's slot lasts so long."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Limits on the calls to a provider, over all workers; None: no limit."""

    concurrent: int | None = None
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None

    @classmethod
    def of(cls, settings: Settings) -> Self:
        """Return the limits that the settings name."""
        return cls(
            concurrent=settings.llm_max_concurrent,
            requests_per_minute=settings.llm_requests_per_minute,
            tokens_per_minute=settings.llm_tokens_per_minute,
        )


@dataclass(frozen=True, kw_only=True)
class Wait:
    """Why a provider may not be asked now."""

    reason: str
    # when to check again, and the retry time for a caller that does not wait
    seconds: float
    retry_after: float
    # the provider is paused, so that waiting is not worth it
    stopped: bool = False


@dataclass(frozen=True, kw_only=True)
class Ticket:
    """A call that may be made."""

    provider: str
    # when it began, by the database's clock
    at: datetime
    # as estimated
    tokens: int
    slot: int


def admit(
    state: Provider, limits: Limits, now: datetime, *, tokens: int, in_use: int, expires_at: datetime
) -> Provider | Wait:
    """Return a provider's state with one more call, which ends by `expires_at`, or why it may not be called now."""
    if state.stopped_until is not None:
        if now < state.stopped_until:
            left = (state.stopped_until - now).total_seconds()
            reason = f"{state.provider} does not answer, and is not asked for another {left:.0f} s"
            return Wait(reason=reason, seconds=left, retry_after=left, stopped=True)
        if state.probe_until is not None and now < state.probe_until:
            reason = f"{state.provider} did not answer; one call tries whether it does now"
            return Wait(reason=reason, seconds=BUSY_SECONDS, retry_after=BUSY_SECONDS, stopped=True)
        state = replace(state, probe_until=expires_at)
    if limits.concurrent is not None and in_use >= limits.concurrent:
        reason = f"{in_use} calls to {state.provider} are being made, as many as may be"
        return Wait(reason=reason, seconds=POLL_SECONDS, retry_after=BUSY_SECONDS)
    allowances = (
        ("requests", state.requests_until, limits.requests_per_minute),
        ("tokens", state.tokens_until, limits.tokens_per_minute),
    )
    for unit, until, per_minute in allowances:
        left = ((until or now) - now).total_seconds() - BURST_SECONDS
        if per_minute is not None and left > 0:
            reason = f"{state.provider} is asked for {per_minute:,} {unit} a minute, and not for another {left:.0f} s"
            return Wait(reason=reason, seconds=left, retry_after=left)
    return replace(
        state,
        requests_until=_used(state.requests_until, now, 1, limits.requests_per_minute),
        tokens_until=_used(state.tokens_until, now, tokens, limits.tokens_per_minute),
    )


def _used(until: datetime | None, now: datetime, amount: int, per_minute: int | None) -> datetime | None:
    """Return when the amount used so far and this one are used up at the permitted rate."""
    return None if per_minute is None else max(until or now, now) + timedelta(minutes=amount / per_minute)


def after_answer(state: Provider, at: datetime, *, more_tokens: int, limits: Limits) -> Provider:
    """Return a provider's state after an answer to a call that began `at` and took `more_tokens` above the estimate."""
    if state.tokens_until is not None and limits.tokens_per_minute is not None:
        late = timedelta(minutes=more_tokens / limits.tokens_per_minute)
        state = replace(state, tokens_until=state.tokens_until + late)
    if _is_older(state, at):
        return state
    return replace(state, failures=0, stops=0, stopped_at=None, stopped_until=None, probe_until=None)


def after_failure(state: Provider, at: datetime, now: datetime, retry_after: float | None) -> Provider:
    """Return a provider's state after a call that began `at` and was not answered."""
    pause = min(retry_after or 0.0, MAX_RETRY_AFTER_SECONDS)
    if _is_older(state, at):
        # it began before the pause, so its only news is the retry time
        until = max(state.stopped_until or now, now + timedelta(seconds=pause))
        return replace(state, stopped_until=until) if pause else state
    failures = state.failures + 1
    seconds = stop_seconds(state.stops) if failures >= FAILURES_BEFORE_PAUSE else 0.0
    if state.stopped_at is not None:
        # this was the probe
        seconds = stop_seconds(state.stops)
    seconds = max(seconds, pause)
    if not seconds:
        return replace(state, failures=failures)
    return replace(
        state,
        failures=failures,
        stops=state.stops + 1,
        stopped_at=now,
        stopped_until=now + timedelta(seconds=seconds),
        probe_until=None,
    )


def _is_older(state: Provider, at: datetime) -> bool:
    return state.stopped_at is not None and at < state.stopped_at


def stop_seconds(stops: int) -> float:
    """Return how long to pause a provider after `stops` pauses without an answer since.

    >>> [stop_seconds(n) for n in (0, 1, 2, 20)]
    [15.0, 30.0, 60.0, 600.0]
    """
    return float(min(FIRST_STOP_SECONDS * 2 ** min(stops, 20), LAST_STOP_SECONDS))


def enter(
    connection: Connection, provider: str, limits: Limits, *, tokens: int, timeout_seconds: float
) -> Ticket | Wait:
    """Reserve a call of about `tokens`, or return why it may not be made now; commit before making it."""
    state = store.lock_provider(connection, provider)
    now = chats.clock(connection)
    expires_at = now + timedelta(seconds=timeout_seconds) + MARGIN
    in_use = store.count_slots(connection, provider, now)
    admitted = admit(state, limits, now, tokens=tokens, in_use=in_use, expires_at=expires_at)
    if isinstance(admitted, Wait):
        return admitted
    store.save_provider(connection, admitted)
    slot = store.take_slot(connection, provider, now, expires_at)
    return Ticket(provider=provider, at=now, tokens=tokens, slot=slot)


def leave(
    connection: Connection,
    ticket: Ticket,
    limits: Limits,
    *,
    answered: bool | None,
    tokens: int = 0,
    retry_after: float | None = None,
) -> None:
    """Release a call that has ended, last in its transaction: with an answer of `tokens`, or without.

    `answered` is None if the call had too little time to tell whether the provider answers.
    """
    store.free_slot(connection, ticket.slot)
    state = store.lock_provider(connection, ticket.provider)
    if answered is None:
        # if this was the probe, another call may be
        state = replace(state, probe_until=None)
    elif answered:
        state = after_answer(state, ticket.at, more_tokens=tokens - ticket.tokens, limits=limits)
    else:
        state = after_failure(state, ticket.at, chats.clock(connection), retry_after)
    store.save_provider(connection, state)
