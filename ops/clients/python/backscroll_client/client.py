"""The clients, sync and async: what differs is how they wait."""

import asyncio
import functools
import os
import threading
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

import httpx

from backscroll_client import calls
from backscroll_client.buffer import Buffer
from backscroll_client.calls import Call
from backscroll_client.errors import Unavailable
from backscroll_client.exchange import Drain, Outcome, Steps, drained, flushed, outcome_of, sent

P = ParamSpec("P")
T = TypeVar("T")

DEFAULT_URL = "http://127.0.0.1:8420"
# The first question after a start waits until the model is loaded.
TIMEOUT = httpx.Timeout(60, connect=5)
MAX_BUFFERED = 100_000


class _Settings:
    """What both clients are made of."""

    def __init__(
        self,
        url: str | None = None,
        api_key: str | None = None,
        *,
        buffer: str | Path | None = None,
        max_buffered: int = MAX_BUFFERED,
        patience: float = 30.0,
    ) -> None:
        """Take the URL, the key and the buffer's path from BACKSCROLL_URL, _API_KEY and _BUFFER if they are not given.

        With a buffer, what is handed over while the API is away waits in that file, at most `max_buffered` requests;
        it is sent before anything else is. All other requests are repeated for `patience` seconds.
        """
        key = api_key or os.environ.get("BACKSCROLL_API_KEY")
        if not key:
            raise ValueError("there is no API key: give api_key, or set BACKSCROLL_API_KEY")
        path = buffer or os.environ.get("BACKSCROLL_BUFFER")
        self.url = (url or os.environ.get("BACKSCROLL_URL") or DEFAULT_URL).rstrip("/")
        if not self.url.startswith(("http://", "https://")):
            raise ValueError(f"{self.url!r} is not a URL: it must begin with http:// or https://")
        headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
        self._connect(base_url=self.url, headers=headers, timeout=TIMEOUT)
        self._buffer = Buffer(Path(path), max_buffered) if path else None
        self._patience = patience

    def _connect(self, **options: Any) -> None:
        raise NotImplementedError

    @property
    def waiting(self) -> int:
        """The number of requests in the buffer."""
        return self._buffer.size if self._buffer is not None else 0

    def _drained(self, drain: Drain) -> Steps[Unavailable | None]:
        assert self._buffer is not None  # noqa: S101 - nothing else is drained
        return drained(self._buffer, drain)

    def _lost(self, error: httpx.TransportError) -> Outcome:
        return Unavailable(f"the Backscroll at {self.url} does not answer ({error or type(error).__name__})")


def _outcome(answer: httpx.Response) -> Outcome:
    return outcome_of(answer.status_code, answer.content, answer.headers.get("Retry-After"))


def _method(make: Callable[P, Call[T]]) -> "Callable[Concatenate[Backscroll, P], T]":
    @functools.wraps(make)
    def method(self: "Backscroll", /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._run(sent(make(*args, **kwargs), self._buffer, self._patience))

    return method


def _coroutine(
    make: Callable[P, Call[T]],
) -> "Callable[Concatenate[AsyncBackscroll, P], Coroutine[Any, Any, T]]":
    @functools.wraps(make)
    async def method(self: "AsyncBackscroll", /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._run(sent(make(*args, **kwargs), self._buffer, self._patience))

    return method


class Backscroll(_Settings):
    """A Backscroll; threads may share it."""

    add = _method(calls.add)
    edit = _method(calls.edit)
    delete = _method(calls.delete)
    event = _method(calls.event)
    context = _method(calls.context)
    search = _method(calls.search)
    latest = _method(calls.latest)
    remember = _method(calls.remember)
    about = _method(calls.about)
    forget_user = _method(calls.forget_user)

    def _connect(self, **options: Any) -> None:
        self._http, self._draining = httpx.Client(**options), threading.Lock()

    def flush(self) -> bool:
        """Send what waits in the buffer; returns whether nothing is left to be sent."""
        return self._run(flushed(self._buffer))

    def close(self) -> None:
        """Close the connections and the buffer; what waits in it is sent by the next client that opens it."""
        self._http.close()
        if self._buffer is not None:
            self._buffer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _run(self, steps: Steps[T]) -> T:
        result: Any = None
        try:
            while True:
                result = self._do(steps.send(result))
        except StopIteration as end:
            returned: T = end.value
            return returned

    def _do(self, step: Call[Any] | Drain | float) -> Any:
        if isinstance(step, Drain):
            with self._draining:
                return self._run(self._drained(step))
        if not isinstance(step, Call):
            return time.sleep(step)
        try:
            return _outcome(self._http.request(step.method, step.path, content=step.body))
        except httpx.TransportError as error:
            return self._lost(error)


class AsyncBackscroll(_Settings):
    """A Backscroll, for asyncio."""

    add = _coroutine(calls.add)
    edit = _coroutine(calls.edit)
    delete = _coroutine(calls.delete)
    event = _coroutine(calls.event)
    context = _coroutine(calls.context)
    search = _coroutine(calls.search)
    latest = _coroutine(calls.latest)
    remember = _coroutine(calls.remember)
    about = _coroutine(calls.about)
    forget_user = _coroutine(calls.forget_user)

    def _connect(self, **options: Any) -> None:
        self._http, self._draining = httpx.AsyncClient(**options), asyncio.Lock()

    async def flush(self) -> bool:
        """Send what waits in the buffer; returns whether nothing is left to be sent."""
        return await self._run(flushed(self._buffer))

    async def close(self) -> None:
        """Close the connections and the buffer; what waits in it is sent by the next client that opens it."""
        await self._http.aclose()
        if self._buffer is not None:
            self._buffer.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _run(self, steps: Steps[T]) -> T:
        result: Any = None
        try:
            while True:
                result = await self._do(steps.send(result))
        except StopIteration as end:
            returned: T = end.value
            return returned

    async def _do(self, step: Call[Any] | Drain | float) -> Any:
        if isinstance(step, Drain):
            async with self._draining:
                return await self._run(self._drained(step))
        if not isinstance(step, Call):
            return await asyncio.sleep(step)
        try:
            return _outcome(await self._http.request(step.method, step.path, content=step.body))
        except httpx.TransportError as error:
            return self._lost(error)
