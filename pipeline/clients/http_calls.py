"""Call servers of models over HTTP: a time limit for the whole call, and what a refusal means."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import TimeoutError as StillRunning
from contextlib import suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from ipaddress import ip_address
from math import isfinite
from typing import TypeVar
from urllib.parse import urlsplit

import httpx2

from schemas.errors import BackscrollError, ProviderFailed, ProviderRejected, ProviderUnavailable

T = TypeVar("T")

MAX_ERROR_CHARS = 200
"""Characters of a server's own words that become part of an error."""
_CLOSING_SECONDS = 1.0  # for a call that is cancelled to close its connection
# The server or what is before it is busy or away; another 5xx may be this very input's doing.
_AWAY = frozenset((408, 425, 429, 502, 503, 504, 529))
_UNAUTHORIZED = (401, 403)
_NOT_FOUND = 404
# Servers have no common code for it.
_TOO_LONG = (
    "too long",
    "too large",
    "context length",
    "maximum context",
    "input length",
    "max_tokens",
    "exceed",
)


class Calls:
    """Runs calls on an event loop in a thread of its own, so that each ends in time, whatever the server does.

    The timeouts of HTTP clients are for each read, and a server that sends a byte now and then keeps to them for ever.
    """

    def __init__(self) -> None:
        self._starting = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def run(self, call: Callable[[], Awaitable[T]], seconds: float) -> T:
        """Return what a call returns. Raises `TimeoutError` after so many seconds in all, or what the call raises."""

        async def within() -> T:
            async with asyncio.timeout(seconds):
                return await call()

        future = asyncio.run_coroutine_threadsafe(within(), self._started())
        try:
            return future.result(seconds + _CLOSING_SECONDS)
        except StillRunning:
            raise TimeoutError from None
        finally:
            # also when this thread is told to stop meanwhile
            future.cancel()

    def close(self) -> None:
        """End the thread, with no call under way; another call starts it again."""
        with self._starting:
            if self._loop is not None and self._thread is not None:
                self._loop.call_soon_threadsafe(self._loop.stop)
                self._thread.join()
                self._loop.close()
                self._loop = self._thread = None

    def _started(self) -> asyncio.AbstractEventLoop:
        with self._starting:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=self._loop.run_forever, name="http-calls", daemon=True)
                self._thread.start()
            return self._loop


def http_client(url: str) -> httpx2.AsyncClient:
    """Make a client for one server; redirects are not followed, so that texts go where the settings say.

    What runs on this machine is not asked through a proxy.
    """
    return httpx2.AsyncClient(timeout=None, follow_redirects=False, trust_env=not is_local(url))


def is_local(url: str) -> bool:
    """Tell whether a URL names this machine.

    >>> is_local("http://127.0.0.1:11434"), is_local("http://[::1]/v1"), is_local("https://api.openai.com/v1")
    (True, True, False)
    """
    host = urlsplit(url).hostname or ""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def refusal(
    status: int, said: str, headers: Mapping[str, str], *, server: str, key: str, missing: str
) -> BackscrollError:
    """Return what to raise for an answer that is no success.

    `said` are the server's own words, `key` says what to set when it does not know who asks, and `missing` what to do
    when it does not know the model.
    """
    words = " ".join(said.split())[:MAX_ERROR_CHARS]
    answered = f"{server} answers {status}"
    if status in _AWAY:
        return ProviderUnavailable(
            f"{answered}: {words}", retry_after=retry_after(headers, datetime.now(UTC))
        )
    if status in _UNAUTHORIZED:
        # its words may quote the key
        return ProviderUnavailable(f"{answered}: {key}")
    if status == _NOT_FOUND:
        return ProviderUnavailable(f"{answered}: {missing}")
    if status == 413 or (status in (400, 422) and any(word in words.lower() for word in _TOO_LONG)):
        return ProviderRejected(f"{answered}, the text is too long: {words}")
    return ProviderFailed(f"{answered}: {words}")


def retry_after(headers: Mapping[str, str], now: datetime) -> float | None:
    """Return in how many seconds the server may be asked again, if its `Retry-After` says so.

    >>> now = datetime(2026, 3, 2, tzinfo=UTC)
    >>> [retry_after({"retry-after": each}, now) for each in ("7.5", "Mon, 02 Mar 2026 00:01:00 GMT", "soon", "nan")]
    [7.5, 60.0, None, None]
    """
    given = headers.get("retry-after", "")
    with suppress(ValueError):
        return max(0.0, float(given)) if isfinite(float(given)) else None
    try:
        at = parsedate_to_datetime(given)
    except ValueError:
        return None
    return max(0.0, (at.replace(tzinfo=at.tzinfo or UTC) - now).total_seconds())
