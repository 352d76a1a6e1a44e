"""The clients, sync and async: what differs is how they wait."""

import asyncio
import functools
import logging
import math
import os
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

import httpx

from backscroll_client import calls, commands
from backscroll_client.buffer import Buffer
from backscroll_client.calls import Call
from backscroll_client.errors import BackscrollError, BufferUnusable
from backscroll_client.exchange import Exchange
from backscroll_client.values import Chat, Message, SetAside

P = ParamSpec("P")
T = TypeVar("T")

DEFAULT_URL = "http://127.0.0.1:8420"
MAX_BUFFERED = 100_000
NOT_TO_STOP_A_BOT = (BackscrollError, TypeError, ValueError, RecursionError)
"""What a payload, the API or the buffer can be ill with; a defect is none of these."""
LOG = logging.getLogger("backscroll_client")


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

        With a buffer, what is handed over while the API is away waits in that file, at most `max_buffered` messages;
        it is sent before anything else is. All other requests are repeated for `patience` seconds.
        """
        key = (api_key or os.environ.get("BACKSCROLL_API_KEY") or "").strip()
        if not key:
            raise ValueError("there is no API key: give api_key, or set BACKSCROLL_API_KEY")
        if not (key.isascii() and key.isprintable()):
            raise ValueError("the API key holds characters that no key has")
        path = buffer or os.environ.get("BACKSCROLL_BUFFER")
        self.url = (url or os.environ.get("BACKSCROLL_URL") or DEFAULT_URL).rstrip("/")
        if not self.url.startswith(("http://", "https://")):
            raise ValueError("this is not a URL: it must begin with http:// or https://")
        headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
        try:
            self._connect(base_url=self.url, headers=headers)
        except httpx.InvalidURL:
            # which would quote a password
            encode = "percent-encode what is special in its user and password, such as %23 for #"
            raise ValueError(f"this is not a URL that can be called: {encode}") from None
        self._buffer = Buffer(Path(path), max_buffered) if path else None
        self._patience = patience

    def _connect(self, **options: Any) -> None:
        raise NotImplementedError

    @property
    def waiting(self) -> int:
        """The number of messages and changes in the buffer that are to be sent."""
        return self._buffer.waiting if self._buffer is not None else 0

    async def _command(
        self, text: str, chat_id: str, user_id: str, *, direct: bool = False, bot: str = ""
    ) -> str | None:
        """Do what somebody asks for themselves (/missed, /remember, /mydata, /forgetme); return the answer to them.

        None if the text is no such command. Ids and `direct`, whether nobody else sees the answer, are the platform's;
        `bot` is the name by which commands are addressed to this bot, as in /missed@name.
        """
        asked = commands.read(text, chat_id, user_id, direct=direct, bot=bot)
        if asked is None or isinstance(asked, str):
            return asked
        try:
            return await self._sent(asked)
        except BackscrollError as error:
            LOG.error("a command was not done: %s", error)  # noqa: TRY400
            return commands.AWAY

    async def _tee(self, platform: str, payload: Any, **said: str | None) -> bool:
        """Hand over what a platform sent, as `event`; what goes wrong is logged, and the bot goes on."""
        try:
            return await self._sent(calls.event(platform, payload, **said))
        except NOT_TO_STOP_A_BOT as error:
            LOG.error("what %s sent is not remembered: %s", platform, error)  # noqa: TRY400
            return False

    def add_later(self, chat: str | Chat, *messages: Message) -> None:
        """Write messages into the buffer for the next call to send, without waiting. Raises `BufferUnusable`."""
        if self._buffer is None:
            raise BufferUnusable("there is no buffer: give one, or set BACKSCROLL_BUFFER")
        _, numbers = self._buffer.append(calls.add(chat, *messages))
        self._buffer.release(numbers)

    async def _set_aside(self) -> list[SetAside]:
        """Return the requests in the buffer that the API refused for good, with its reasons."""
        return self._buffer.set_aside() if self._buffer is not None else []

    async def _send_again(self, *numbers: int) -> int:
        """Let requests that were set aside wait again, all of them without numbers; returns how many do."""
        async with self._alone(math.inf):
            chosen = numbers or [request.number for request in await self._set_aside()]
            return self._buffer.send_again(chosen) if self._buffer is not None else 0

    async def _drop(self, *numbers: int) -> int:
        """Delete requests from the buffer for good, set aside or waiting; returns how many were there."""
        async with self._alone(math.inf):
            return self._buffer.drop(numbers) if self._buffer is not None else 0


def _blocking(
    method: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]],
) -> "Callable[Concatenate[Backscroll, P], T]":
    """Return a coroutine function that waits for nothing but what blocks as a function."""

    @functools.wraps(method)
    def run(self: "Backscroll", /, *args: P.args, **kwargs: P.kwargs) -> T:
        try:
            method(self, *args, **kwargs).send(None)
        except StopIteration as end:
            returned: T = end.value
            return returned
        raise RuntimeError("it waits for an event loop")

    return run


def _coroutine(
    make: Callable[P, Call[T]],
) -> "Callable[Concatenate[_Settings, P], Coroutine[Any, Any, T]]":
    @functools.wraps(make)
    async def method(self: "_Settings", /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._sent(make(*args, **kwargs))

    return method


class Backscroll(_Settings):
    """A Backscroll; threads may share it."""

    add = _blocking(_coroutine(calls.add))
    edit = _blocking(_coroutine(calls.edit))
    delete = _blocking(_coroutine(calls.delete))
    event = _blocking(_coroutine(calls.event))
    context = _blocking(_coroutine(calls.context))
    digest = _blocking(_coroutine(calls.digest))
    search = _blocking(_coroutine(calls.search))
    latest = _blocking(_coroutine(calls.latest))
    remember = _blocking(_coroutine(calls.remember))
    memories = _blocking(_coroutine(calls.memories))
    search_memories = _blocking(_coroutine(calls.search_memories))
    edit_memory = _blocking(_coroutine(calls.edit_memory))
    delete_memory = _blocking(_coroutine(calls.delete_memory))
    about = _blocking(_coroutine(calls.about))
    forget_user = _blocking(_coroutine(calls.forget_user))
    tee = _blocking(_Settings._tee)
    command = _blocking(_Settings._command)
    flush = _blocking(_Settings._flushed)
    set_aside = _blocking(_Settings._set_aside)
    send_again = _blocking(_Settings._send_again)
    drop = _blocking(_Settings._drop)

    def _connect(self, **options: Any) -> None:
        self._http, self._lock = httpx.Client(**options), threading.Lock()

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
    async def _alone(self, seconds: float) -> AsyncIterator[bool]:
        is_alone = self._lock.acquire(timeout=min(seconds, threading.TIMEOUT_MAX))
        try:
            yield is_alone
        finally:
            if is_alone:
                self._lock.release()

    async def _request(self, call: Call[Any], timeout: httpx.Timeout) -> httpx.Response:
        return self._http.request(call.method, call.path, content=call.body, timeout=timeout)

    async def _sleep(self, seconds: float) -> None:
        time.sleep(seconds)


class AsyncBackscroll(_Settings):
    """A Backscroll, for asyncio."""

    add = _coroutine(calls.add)
    edit = _coroutine(calls.edit)
    delete = _coroutine(calls.delete)
    event = _coroutine(calls.event)
    context = _coroutine(calls.context)
    digest = _coroutine(calls.digest)
    search = _coroutine(calls.search)
    latest = _coroutine(calls.latest)
    remember = _coroutine(calls.remember)
    memories = _coroutine(calls.memories)
    search_memories = _coroutine(calls.search_memories)
    edit_memory = _coroutine(calls.edit_memory)
    delete_memory = _coroutine(calls.delete_memory)
    about = _coroutine(calls.about)
    forget_user = _coroutine(calls.forget_user)
    tee = _Settings._tee
    command = _Settings._command
    flush = _Settings._flushed
    set_aside = _Settings._set_aside
    send_again = _Settings._send_again
    drop = _Settings._drop

    def _connect(self, **options: Any) -> None:
        self._http, self._lock = httpx.AsyncClient(**options), asyncio.Lock()

    async def close(self) -> None:
        """Close the connections and the buffer; what waits in it is sent by the next client that opens it."""
        await self._http.aclose()
        if self._buffer is not None:
            self._buffer.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @asynccontextmanager
    async def _alone(self, seconds: float) -> AsyncIterator[bool]:
        try:
            async with asyncio.timeout(seconds if seconds < math.inf else None):
                await self._lock.acquire()
        except TimeoutError:
            yield False
            return
        try:
            yield True
        finally:
            self._lock.release()

    async def _request(self, call: Call[Any], timeout: httpx.Timeout) -> httpx.Response:
        return await self._http.request(call.method, call.path, content=call.body, timeout=timeout)

    async def _sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
