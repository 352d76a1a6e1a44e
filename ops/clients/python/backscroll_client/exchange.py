"""What is sent when, and what an answer means, for both clients: they differ in how they wait."""

import json
import logging
import operator
import random
import time
from contextlib import AbstractAsyncContextManager, suppress
from typing import Any, TypeVar

import httpx

from backscroll_client import errors
from backscroll_client.buffer import FIRST_PAUSE_SECONDS, Buffer, Lane
from backscroll_client.calls import Call
from backscroll_client.errors import (
    BackscrollError,
    BufferUnusable,
    KeyRefused,
    NoAnswer,
    NotFound,
    Refused,
    Unavailable,
)

T = TypeVar("T")

log = logging.getLogger("backscroll_client")

TIMEOUT_SECONDS, CONNECT_SECONDS = 60.0, 5.0
"""For an answer (the first question after a start waits until the model is loaded), and for a connection."""
BACKLOG_SECONDS = 30.0
"""For which a change sends what waits or waits for another that does, and a flush goes on when nothing is taken."""
LEAST_SECONDS = 1.0
"""For an answer to what waits before a question, however short the client's patience."""
MAX_FAILED_LANES = 3
"""Chats put off one after the other, after which only a flush tries the next."""


class Exchange:
    """Sends calls, through the buffer where they may wait in it."""

    url: str
    _buffer: Buffer | None
    _patience: float

    def _alone(self, seconds: float) -> AbstractAsyncContextManager[bool]:
        """Let nobody else send what waits; gives False if somebody else does for so long."""
        raise NotImplementedError

    async def _request(self, call: Call[Any], timeout: httpx.Timeout) -> httpx.Response:
        raise NotImplementedError

    async def _sleep(self, seconds: float) -> None:
        raise NotImplementedError

    async def _sent(self, call: Call[T]) -> T:
        """Send a change by way of the buffer, if there is one; repeat anything else for `patience` seconds."""
        if self._buffer is not None and call.buffered:
            return await self._handed_over(self._buffer, call)
        pause, until = FIRST_PAUSE_SECONDS, time.monotonic() + self._patience
        while True:
            # an answer should know all that was handed over before, but not come too late for that
            try:
                waits = await self._drained(until, is_urgent=True)
            except BufferUnusable as error:
                waits = error
            outcome = await self._outcome(call)
            if isinstance(outcome, NotFound) and call.absent is not None:
                outcome = call.absent
            if not isinstance(outcome, BackscrollError):
                if waits is not None:
                    log.warning("an answer does not know all that was handed over before: %s", waits)
                return outcome
            if not isinstance(outcome, Unavailable):
                raise outcome
            # bots that were cut off together do not come back together
            seconds = max(outcome.retry_after or 0.0, pause * random.uniform(0.5, 1.0))  # noqa: S311
            if time.monotonic() + seconds > until:
                raise outcome
            await self._sleep(seconds)
            pause *= 2

    async def _handed_over(self, buffer: Buffer, call: Call[Any]) -> Any:
        """Write a change into the buffer and send what is in it; return whether the change is committed."""
        until = time.monotonic() + BACKLOG_SECONDS
        try:
            lane, numbers = buffer.append(call)
        except BufferUnusable as unusable:
            return await self._past(buffer, call, unusable)
        try:
            try:
                await self._drained(until)
            except BufferUnusable:
                if not buffer.is_committed(lane, numbers):
                    raise
            return buffer.is_committed(lane, numbers)
        finally:
            buffer.release(numbers)

    async def _past(self, buffer: Buffer, call: Call[Any], unusable: BufferUnusable) -> Any:
        """Send a change that cannot be written down, unless it would overtake what still waits."""
        with suppress(BufferUnusable):
            await self._drained(time.monotonic() + BACKLOG_SECONDS, is_urgent=True)
        outcome = unusable if buffer.overtakes(call) else await self._outcome(call)
        if isinstance(outcome, Refused):
            raise outcome
        if isinstance(outcome, BackscrollError):
            raise BufferUnusable(f"{unusable} This was not kept: hand it over again.") from outcome
        return outcome

    async def _flushed(self) -> bool:
        """Send what waits in the buffer; returns whether nothing is left to be sent.

        Raises `KeyRefused` if something waits because of the key.
        """
        waits = await self._drained()
        if isinstance(waits, KeyRefused):
            raise waits
        if waits is not None:
            log.warning("not all that waits could be sent: %s", waits)
        return waits is None

    async def _drained(
        self, until: float | None = None, *, is_urgent: bool = False
    ) -> BackscrollError | None:
        """Send what waits, chat by chat, until this time; None: all of it, whatever rests.

        Returns why something still waits; because of the key, if for several reasons. If it is urgent only what the API
        itself put off rests, and no answer is waited for beyond that time.
        """
        buffer, began = self._buffer, time.monotonic()
        if buffer is None or not buffer.waiting:
            return None
        rests_until = operator.attrgetter("told_until" if is_urgent else "until")
        if until is not None and began < rests_until(buffer.rest):
            return buffer.rest.reason
        reasons: list[BackscrollError] = []
        failed, got_on = 0, began
        async with self._alone(BACKLOG_SECONDS if until is None else max(0.0, until - began)) as is_alone:
            if not is_alone:
                return Unavailable("another call sends what waits")
            for lane in buffer.lanes():
                if until is not None and began < rests_until(lane.rest):
                    reasons += [lane.rest.reason] if lane.rest.reason else []
                    continue
                reason = await self._lane_sent(buffer, lane, until, is_urgent=is_urgent)
                now = time.monotonic()
                if until is not None and now > until:
                    return reason or Unavailable("there was no time to send all that waits")
                if reason is None:
                    failed, got_on = 0, now
                    continue
                reasons, failed = [*reasons, reason], failed + 1
                if isinstance(reason, NoAnswer) or type(reason) is KeyRefused:
                    buffer.rest.begin(reason, now)
                    return reason
                if failed == MAX_FAILED_LANES if until else now > got_on + BACKLOG_SECONDS:
                    # it seems to be the API, but another chat need not wait as long as these were told to
                    if got_on == began:
                        buffer.rest.begin(Unavailable(str(reason)), now)
                    return reason
        return max(reasons, key=lambda reason: isinstance(reason, KeyRefused), default=None)

    async def _lane_sent(
        self, buffer: Buffer, lane: Lane, until: float | None, *, is_urgent: bool
    ) -> BackscrollError | None:
        """Send what waits for a chat; return why it stays."""
        while (batch := buffer.next(lane)) is not None:
            numbers, call = batch
            seconds = max(LEAST_SECONDS, until - time.monotonic()) if until and is_urgent else TIMEOUT_SECONDS
            outcome = await self._outcome(call, seconds)
            if not buffer.settle(lane, numbers, outcome) and isinstance(outcome, BackscrollError):
                return outcome
            if until is not None and time.monotonic() > until:
                break
        return None

    async def _outcome(self, call: Call[T], seconds: float = TIMEOUT_SECONDS) -> T | BackscrollError:
        try:
            response = await self._request(
                call, httpx.Timeout(seconds, connect=min(seconds, CONNECT_SECONDS))
            )
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            return without_answer(self.url, error)
        return meaning_of_answer(call, response)


PROBLEM, PROBLEM_TYPES = "application/problem+json", "urn:backscroll:problem:"
UNKNOWN_PATH = "Not Found"
"""How a Backscroll without such a path says so: then the URL or its version is wrong, not the request."""
STALLED_SECONDS = 30.0
"""After which to ask again what did not answer in time: whoever waits for an answer must not wait for it each time."""


def meaning_of_answer(call: Call[T], response: httpx.Response) -> T | errors.BackscrollError:
    """Return what the answer to a call says, or the error that it tells."""
    try:
        value = json.loads(response.content)
    except (ValueError, RecursionError):
        value = None
    if response.status_code in call.statuses:
        try:
            return call.read(value)
        except errors.Refused as refused:
            return refused
        except (LookupError, TypeError, ValueError):
            # somebody else's success
            pass
    media_type = response.headers.get("Content-Type", "").partition(";")[0].strip().lower()
    if media_type == PROBLEM and isinstance(value, dict):
        is_own = str(value.get("type")).startswith(PROBLEM_TYPES)
        if is_own and (problem := _problem(value, response)) is not None:
            return problem
    told = f"{call.method} {call.path.partition('?')[0]} was not answered by a Backscroll: {response.status_code}"
    hint = f"{media_type}. Is the URL right?" if response.status_code < 500 else media_type
    return errors.ApiFailed(f"{told} {hint}".rstrip(), retry_after=_retry_after(response))


def _problem(problem: dict[str, Any], response: httpx.Response) -> errors.BackscrollError | None:
    detail, field = str(problem.get("detail")), str(problem.get("field") or "")
    match response.status_code:
        case 401:
            return errors.KeyRefused(detail)
        case 403:
            return errors.Forbidden(detail)
        case 404 if detail != UNKNOWN_PATH:
            return errors.NotFound(detail, field=field)
        case 400 | 413 | 422:
            return errors.Refused(detail, field=field)
        case 409 if "Retry-After" not in response.headers:
            return errors.Refused(detail, field=field)
        case 408 | 409 | 429 | 503:
            return errors.Unavailable(detail, retry_after=_retry_after(response))
        case 500:
            return errors.ApiFailed(f"{detail} {problem.get('request_id', '')}".rstrip())
    return None


def _retry_after(response: httpx.Response) -> float | None:
    seconds = response.headers.get("Retry-After", "")
    # a date, which a proxy may send, is as good as none
    return float(seconds) if seconds.isdecimal() else None


def without_answer(url: str, error: Exception) -> errors.Unavailable:
    """Return the error of a request that failed on its way, or whose answer cannot be read."""
    told = f"the Backscroll at {url} does not answer ({error or type(error).__name__})"
    match error:
        case httpx.ConnectError() | httpx.ConnectTimeout():
            return errors.NoAnswer(told)
        case httpx.TimeoutException():
            return errors.NoAnswer(told, retry_after=STALLED_SECONDS)
    return errors.Unavailable(told)
