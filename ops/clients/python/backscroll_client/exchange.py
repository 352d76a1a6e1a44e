"""What is sent when, without any input or output: each generator yields what is to be done, and gets what came of it.

A `Call` is sent and gives its `Outcome`, a `Drain` gives the outage that ended it, a number of seconds is waited for.
"""

import json
import logging
import random
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, TypeVar

from backscroll_client.buffer import MAX_BATCH, Buffer
from backscroll_client.calls import Call
from backscroll_client.errors import ApiFailed, BackscrollError, KeyRefused, Unavailable, error_of

T = TypeVar("T")

log = logging.getLogger("backscroll_client")

FIRST_PAUSE_SECONDS = 0.25


@dataclass(frozen=True, kw_only=True)
class Drain:
    """Send what waits in the buffer."""

    mine: int | None = None
    """The request that its caller hears of; None: even if the API was away a moment ago."""


Outcome = bytes | BackscrollError
Steps = Generator[Call[Any] | Drain | float, Any, T]


def sent(call: Call[T], buffer: Buffer | None, patience: float) -> Steps[T]:
    """Send a call, through the buffer where the call may wait in it; else retry it for `patience` seconds."""
    if buffer is not None and call.buffered:
        number = buffer.append(call)
        yield Drain(mine=number)
        return call.read(buffer.is_sent(number))
    pause, waited = FIRST_PAUSE_SECONDS, 0.0
    while True:
        # an answer knows all that was handed over before
        outcome: Outcome | None = (yield Drain()) if buffer is not None and buffer.size else None
        outcome = outcome or (yield call)
        if isinstance(outcome, bytes):
            return _read(call, outcome)
        if not isinstance(outcome, Unavailable):
            raise outcome
        # bots that were cut off together do not come back together
        seconds = max(outcome.retry_after or 0.0, pause * random.uniform(0.5, 1.0))  # noqa: S311
        if waited + seconds > patience:
            raise outcome
        yield seconds
        waited, pause = waited + seconds, 2 * pause


def drained(buffer: Buffer, drain: Drain) -> Steps[Unavailable | None]:
    """Send all that waits, in order; returns the outage that ended it. Raises `KeyRefused`."""
    if drain.mine is not None and buffer.is_resting():
        return buffer.outage
    most = MAX_BATCH
    while (batch := buffer.first(most)) is not None:
        outcome: Outcome = yield batch.call
        if isinstance(outcome, bytes):
            buffer.remove(batch.numbers)
            most = MAX_BATCH
        elif isinstance(outcome, Unavailable):
            buffer.rest(outcome)
            return outcome
        elif isinstance(outcome, KeyRefused):
            raise outcome
        elif len(batch.numbers) > 1:
            # one of them is wrong: each for itself
            most = 1
        else:
            buffer.refuse(batch.numbers[0], outcome)
            if batch.numbers[0] != drain.mine:
                log.error(
                    "request %d of %s is refused and set aside: %s", batch.numbers[0], buffer.path, outcome
                )
    return None


def flushed(buffer: Buffer | None) -> Steps[bool]:
    """Send all that waits; returns whether nothing is left to be sent."""
    if buffer is None:
        return True
    return (yield Drain()) is None


def outcome_of(status: int, body: bytes, retry_after: str | None) -> Outcome:
    """Return the body of a success, or the error."""
    error = error_of(status, body, retry_after)
    return body if error is None else error


def _read(call: Call[T], body: bytes) -> T:
    try:
        return call.read(json.loads(body))
    except (ValueError, KeyError, TypeError) as error:
        raise ApiFailed(
            f"{call.method} {call.path.partition('?')[0]} was not answered by a Backscroll"
        ) from error
