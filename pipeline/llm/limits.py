"""Limits of a model's provider that all workers share: calls at once, rates, and a circuit breaker.

What is known of a provider is a row in Postgres. `enter` before a call and `leave` after it are parts of short
transactions; none is open during the call. When a provider does not answer several calls in a row, or says when it may
be asked again, nobody calls it until then; one call tries first, and the others follow if it is answered.
"""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Self

from sqlalchemy import Connection

from pipeline.store.chats import chats
from pipeline.store.models import llm_limits as store
from pipeline.store.models.llm_limits import Provider
from schemas.settings import Settings

FAILURES = 5
"""Calls without an answer in a row, over all workers, after which nobody calls a provider for a while."""
FIRST_STOP_SECONDS = 15.0
LAST_STOP_SECONDS = 600.0
MAX_RETRY_AFTER_SECONDS = 3600.0
"""A provider that asks for more is asked again after this."""
BURST_SECONDS = 6.0
"""A provider may be asked at once for what the rate permits in this time, and so a tenth more in a minute."""
POLL_SECONDS = 0.25
"""How often to look for a call to end when as many are being made as may be."""
BUSY_SECONDS = 5.0
"""When to try again what has found no place among the calls that are being made."""
MARGIN = timedelta(seconds=10)
"""Added to a call's timeout for what goes before and after it; only a killed worker's slot lasts so long."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """How much a provider is asked, by all workers together; None: no limit."""

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
    # when to look again, and what to tell whoever does not wait
    seconds: float
    retry_after: float
    # not worth waiting for: it will take long
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
    """Return a provider with one call more, which ends by `expires_at`, or why it may not be asked now."""
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
        left = _seconds_left(until, now) - BURST_SECONDS
        if per_minute is not None and left > 0:
            reason = f"{state.provider} is asked for {per_minute:,} {unit} a minute, and not for another {left:.0f} s"
            return Wait(reason=reason, seconds=left, retry_after=left)
    return replace(
        state,
        requests_until=_used(state.requests_until, now, 1, limits.requests_per_minute),
        tokens_until=_used(state.tokens_until, now, tokens, limits.tokens_per_minute),
    )


def _seconds_left(until: datetime | None, now: datetime) -> float:
    return 0.0 if until is None else (until - now).total_seconds()


def _used(until: datetime | None, now: datetime, amount: int, per_minute: int | None) -> datetime | None:
    """Return when what was used so far, and this amount, are used up at the permitted rate."""
    return None if per_minute is None else max(until or now, now) + timedelta(minutes=amount / per_minute)


def after_answer(state: Provider, at: datetime, *, more_tokens: int, limits: Limits) -> Provider:
    """Return a provider after an answer to a call that began `at`, with the tokens that it took beside the estimate."""
    if state.tokens_until is not None and limits.tokens_per_minute is not None:
        late = timedelta(minutes=more_tokens / limits.tokens_per_minute)
        state = replace(state, tokens_until=state.tokens_until + late)
    if _is_older(state, at):
        return state
    return replace(state, failures=0, stops=0, stopped_at=None, stopped_until=None, probe_until=None)


def after_failure(state: Provider, at: datetime, now: datetime, retry_after: float | None) -> Provider:
    """Return a provider after a call that began `at` and was not answered."""
    pause = min(retry_after or 0.0, MAX_RETRY_AFTER_SECONDS)
    if _is_older(state, at):
        # it was made before the others were stopped, and says nothing new but when to try again
        until = max(state.stopped_until or now, now + timedelta(seconds=pause))
        return replace(state, stopped_until=until) if pause else state
    failures = state.failures + 1
    seconds = stop_seconds(state.stops) if failures >= FAILURES else 0.0
    if state.stopped_at is not None:
        # the call that tried whether it answers again
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
    """Return how long nobody calls a provider that was stopped this often before without an answer since.

    >>> [stop_seconds(n) for n in (0, 1, 2, 20)]
    [15.0, 30.0, 60.0, 600.0]
    """
    return float(min(FIRST_STOP_SECONDS * 2 ** min(stops, 20), LAST_STOP_SECONDS))


def enter(
    connection: Connection, provider: str, limits: Limits, *, tokens: int, timeout_seconds: float
) -> Ticket | Wait:
    """Note a call of about `tokens` that is to be made now, or return why it may not; commit before making it."""
    state = store.lock(connection, provider)
    now = chats.clock(connection)
    expires_at = now + timedelta(seconds=timeout_seconds) + MARGIN
    in_use = store.count_slots(connection, provider, now)
    admitted = admit(state, limits, now, tokens=tokens, in_use=in_use, expires_at=expires_at)
    if isinstance(admitted, Wait):
        return admitted
    store.save(connection, admitted)
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
    """Note that a call has ended, the last thing in its transaction: with an answer of `tokens`, or without.

    None: whether the provider answers is not known, as there was too little time for it.
    """
    store.free_slot(connection, ticket.slot)
    state = store.lock(connection, ticket.provider)
    if answered is None:
        # if this was the call that tries, another one may
        state = replace(state, probe_until=None)
    elif answered:
        state = after_answer(state, ticket.at, more_tokens=tokens - ticket.tokens, limits=limits)
    else:
        state = after_failure(state, ticket.at, chats.clock(connection), retry_after)
    store.save(connection, state)
