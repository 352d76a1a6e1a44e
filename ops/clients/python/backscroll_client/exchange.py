"""What is sent when, for both clients: they differ in how a request is made and how time is waited for."""

import json
import logging
import random
from contextlib import AbstractAsyncContextManager
from typing import Any, TypeVar

import httpx

from backscroll_client.buffer import MAX_BATCH, Buffer
from backscroll_client.calls import Call
from backscroll_client.errors import ApiFailed, BackscrollError, KeyRefused, NotFound, Unavailable, error_of

T = TypeVar("T")

log = logging.getLogger("backscroll_client")

FIRST_PAUSE_SECONDS = 0.25


class Exchange:
    """Sends calls, through the buffer where they may wait in it."""

    url: str
    _buffer: Buffer | None
    _patience: float

    def _alone(self) -> AbstractAsyncContextManager[None]:
        """Let nobody else send what waits."""
        raise NotImplementedError

    async def _request(self, call: Call[Any]) -> httpx.Response:
        raise NotImplementedError

    async def _sleep(self, seconds: float) -> None:
        raise NotImplementedError

    async def _sent(self, call: Call[T]) -> T:
        """Send a call, or write it into the buffer and send all of it; retry others for `patience` seconds."""
        if self._buffer is not None and call.buffered:
            number = self._buffer.append(call)
            await self._drained(mine=number)
            return call.read(self._buffer.is_sent(number))
        pause, waited = FIRST_PAUSE_SECONDS, 0.0
        while True:
            # an answer knows all that was handed over before
            outcome = await self._drained() or await self._outcome(call)
            if isinstance(outcome, bytes):
                return _read(call, outcome)
            if isinstance(outcome, NotFound) and call.absent is not None:
                return call.absent
            if not isinstance(outcome, Unavailable):
                raise outcome
            # bots that were cut off together do not come back together
            seconds = max(outcome.retry_after or 0.0, pause * random.uniform(0.5, 1.0))  # noqa: S311
            if waited + seconds > self._patience:
                raise outcome
            await self._sleep(seconds)
            waited, pause = waited + seconds, 2 * pause

    async def _drained(self, mine: int | None = None) -> Unavailable | None:
        """Send all that waits, in order; return the outage that ended it. Raises `KeyRefused`.

        `mine` is the request that its caller hears of; None: the API is asked even if it was away a moment ago.
        """
        buffer, most = self._buffer, MAX_BATCH
        if buffer is None or not buffer.size:
            return None
        async with self._alone():
            if mine is not None and buffer.is_resting():
                return buffer.outage
            while (batch := buffer.first(most)) is not None:
                outcome = await self._outcome(batch.call)
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
                    (number,) = batch.numbers
                    buffer.refuse(number, outcome)
                    if number != mine:
                        log.error(
                            "request %d of %s is refused and set aside: %s", number, buffer.path, outcome
                        )
        return None

    async def _outcome(self, call: Call[Any]) -> bytes | BackscrollError:
        try:
            answer = await self._request(call)
        except httpx.TransportError as error:
            told = f"the Backscroll at {self.url} does not answer ({error or type(error).__name__})"
            return Unavailable(told)
        error_told = error_of(answer.status_code, answer.content, answer.headers.get("Retry-After"))
        return answer.content if error_told is None else error_told


def _read(call: Call[T], body: bytes) -> T:
    try:
        return call.read(json.loads(body))
    except (ValueError, KeyError, TypeError) as error:
        raise ApiFailed(
            f"{call.method} {call.path.partition('?')[0]} was not answered by a Backscroll"
        ) from error
