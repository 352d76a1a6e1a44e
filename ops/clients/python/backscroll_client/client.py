"""The clients, sync and async: what differs is how they wait."""

import asyncio
import functools
import os
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

import httpx

from backscroll_client import calls
from backscroll_client.buffer import Buffer
from backscroll_client.calls import Call
from backscroll_client.exchange import Exchange

P = ParamSpec("P")
T = TypeVar("T")

DEFAULT_URL = "http://127.0.0.1:8420"
# The first question after a start waits until the model is loaded.
TIMEOUT = httpx.Timeout(60, connect=5)
MAX_BUFFERED = 100_000


class _Settings(Exchange):
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

    async def _flushed(self) -> bool:
        return await self._drained() is None


def _at_once(steps: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that waits for nothing but what blocks."""
    try:
        steps.send(None)
    except StopIteration as end:
        returned: T = end.value
        return returned
    raise RuntimeError("it waits for an event loop")


def _method(make: Callable[P, Call[T]]) -> "Callable[Concatenate[Backscroll, P], T]":
    @functools.wraps(make)
    def method(self: "Backscroll", /, *args: P.args, **kwargs: P.kwargs) -> T:
        return _at_once(self._sent(make(*args, **kwargs)))

    return method


def _coroutine(
    make: Callable[P, Call[T]],
) -> "Callable[Concatenate[AsyncBackscroll, P], Coroutine[Any, Any, T]]":
    @functools.wraps(make)
    async def method(self: "AsyncBackscroll", /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._sent(make(*args, **kwargs))

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
        self._http, self._lock = httpx.Client(**options), threading.Lock()

    def flush(self) -> bool:
        """Send what waits in the buffer; returns whether nothing is left to be sent."""
        return _at_once(self._flushed())

    def close(self) -> None:
        """Close the connections and the buffer; what waits in it is sent by the next client that opens it."""
        self._http.close()
        if self._buffer is not None:
            self._buffer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @asynccontextmanager
    async def _alone(self) -> AsyncIterator[None]:
        with self._lock:
            yield

    async def _request(self, call: Call[Any]) -> httpx.Response:
        return self._http.request(call.method, call.path, content=call.body)

    async def _sleep(self, seconds: float) -> None:
        time.sleep(seconds)


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
        self._http, self._lock = httpx.AsyncClient(**options), asyncio.Lock()

    async def flush(self) -> bool:
        """Send what waits in the buffer; returns whether nothing is left to be sent."""
        return await self._flushed()

    async def close(self) -> None:
        """Close the connections and the buffer; what waits in it is sent by the next client that opens it."""
        await self._http.aclose()
        if self._buffer is not None:
            self._buffer.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def _alone(self) -> AbstractAsyncContextManager[None]:
        return self._lock

    async def _request(self, call: Call[Any]) -> httpx.Response:
        return await self._http.request(call.method, call.path, content=call.body)

    async def _sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
