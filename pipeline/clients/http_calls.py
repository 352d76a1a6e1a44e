"""Call servers over HTTP: a limit for the time of a whole call, verified certificates, no redirects."""

import asyncio
import os
import threading
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import TimeoutError as StillRunning
from contextlib import suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import cache
from math import isfinite, nan
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import urlsplit

from schemas.errors import ProviderUnavailable
from schemas.server_urls import is_local

if TYPE_CHECKING:
    from httpx2 import AsyncClient

T = TypeVar("T")

MAX_RETRY_AFTER = 3600.0
"""A server's retry time counts up to this, in seconds."""

_CLOSING_SECONDS = 1.0  # for a cancelled call to close its connection
_starting = threading.Lock()


def run_within(seconds: float, call: Callable[[], Awaitable[T]]) -> T:
    """Return what a call returns. Raises `TimeoutError` after `seconds` in all, or what the call raises.

    Timeouts of HTTP clients apply to each read, so a server that sends a byte now and then never exceeds them.
    """

    async def within() -> T:
        async with asyncio.timeout(seconds):
            return await call()

    with _starting:
        loop = _loop(os.getpid())
    future = asyncio.run_coroutine_threadsafe(within(), loop)
    try:
        return future.result(seconds + _CLOSING_SECONDS)
    except StillRunning:
        raise TimeoutError from None
    finally:
        # also if this thread is told to stop meanwhile
        future.cancel()


@cache
def _loop(_process: int) -> asyncio.AbstractEventLoop:
    """Start the event loop of a process' calls, in a thread of its own."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="http-calls", daemon=True).start()
    return loop


def http_client(url: str, kind: "type[AsyncClient] | None" = None, *, by_proxy: bool = True) -> "AsyncClient":
    """Make a client for one server; redirects are not followed, so that texts go where the settings say.

    Servers on this machine are not called through a proxy, nor others unless `by_proxy`. Raises `ProviderUnavailable`
    if the trusted certificates cannot be read.
    """
    import httpx2

    try:
        # of the system, or those that SSL_CERT_FILE or SSL_CERT_DIR name, for this machine's servers, too
        trusted = httpx2.create_ssl_context() if urlsplit(url).scheme == "https" else False
    except OSError as error:
        raise ProviderUnavailable(
            f"the certificates of SSL_CERT_FILE or SSL_CERT_DIR cannot be read: {error.strerror or error}"
        ) from error
    make = kind or httpx2.AsyncClient
    return make(
        timeout=None, follow_redirects=False, trust_env=by_proxy and not is_local(url), verify=trusted
    )


def retry_after(headers: Mapping[str, str], now: datetime) -> float | None:
    """Return the seconds until the server may be called again, if `Retry-After` says so, within bounds.

    >>> now = datetime(2026, 3, 2, tzinfo=UTC)
    >>> [retry_after({"retry-after": value}, now) for value in ("7.5", "Mon, 02 Mar 2026 00:01:00 GMT", "soon", "nan")]
    [7.5, 60.0, None, None]
    """
    value, seconds = headers.get("retry-after", ""), nan
    with suppress(ValueError):
        at = parsedate_to_datetime(value)
        seconds = (at.replace(tzinfo=at.tzinfo or UTC) - now).total_seconds()
    with suppress(ValueError):
        seconds = float(value)
    return min(max(seconds, 1.0), MAX_RETRY_AFTER) if isfinite(seconds) else None
