"""Call model servers over HTTP, with a time limit for the whole call, and classify refusals."""

import asyncio
import json
import re
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping
from concurrent.futures import TimeoutError as StillRunning
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from math import isfinite
from typing import Any, TypeVar
from urllib.parse import urlsplit

import httpx2

from schemas.errors import BackscrollError, ProviderFailed, ProviderRejected, ProviderUnavailable
from schemas.server_urls import is_local

T = TypeVar("T")

MAX_ERROR_CHARS = 300
"""Characters of a server's message that are quoted in an error."""
MAX_VECTORS_BYTES = 64 * 1024**2
"""Bytes of an answer with vectors: 1,000 texts of 2,500 dimensions, written as numbers."""
MAX_ERROR_BYTES = 64 * 1024
"""Bytes read of an error response."""
_CLOSING_SECONDS = 1.0  # for a cancelled call to close its connection
# The server or a proxy in front of it is busy or down; any other 5xx may be caused by the input.
_AWAY = frozenset((408, 425, 429, 502, 503, 504, 529))
UNAUTHORIZED = frozenset((401, 403))
_NOT_FOUND = 404
# Servers have no common code for a text that is too long.
_TOO_LONG = ("too long", "too large", "context length", "maximum context", "input length", "exceed")
# Keys of an error's message, which comes first, and of the request that it repeats, which is left out.
_SAID_FIRST = ("error", "message", "msg", "detail")
_TAG = re.compile(r"<[^<>]*>")
_REPEATED = ("input", "body", "request")


class Calls:
    """Runs calls on an event loop in its own thread, so that each ends in time, whatever the server does.

    Timeouts of HTTP clients apply to each read, so a server that sends a byte now and then never exceeds them.
    """

    def __init__(self) -> None:
        self._starting = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def run(self, call: Callable[[], Awaitable[T]], seconds: float) -> T:
        """Return what a call returns. Raises `TimeoutError` after `seconds` in all, or what the call raises."""

        async def within() -> T:
            async with asyncio.timeout(seconds):
                return await call()

        future = asyncio.run_coroutine_threadsafe(within(), self._started())
        try:
            return future.result(seconds + _CLOSING_SECONDS)
        except StillRunning:
            raise TimeoutError from None
        finally:
            # also if this thread is told to stop meanwhile
            future.cancel()

    def close(self) -> None:
        """End the thread, while no call is running; another call starts it again."""
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

    Servers on this machine are not called through a proxy. Raises `ProviderUnavailable` if the trusted certificates
    cannot be read.
    """
    try:
        # of the system, or those that SSL_CERT_FILE or SSL_CERT_DIR name, for this machine's servers, too; reading them
        # takes a part of the first call's time, which a server without TLS does not need
        trusted = httpx2.create_ssl_context() if urlsplit(url).scheme == "https" else False
    except OSError as error:
        raise ProviderUnavailable(
            f"the certificates of SSL_CERT_FILE or SSL_CERT_DIR cannot be read: {error.strerror or error}"
        ) from error
    return httpx2.AsyncClient(
        timeout=None, follow_redirects=False, trust_env=not is_local(url), verify=trusted
    )


@dataclass(frozen=True, kw_only=True)
class Answer:
    """The response of a server."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def is_success(self) -> bool:
        return 200 <= self.status < 300

    def words(self) -> str:
        """Return the server's message, whatever the form of its body: all texts of the JSON, or of the page."""
        text = self.body.decode(errors="replace")
        try:
            text = " ".join(_texts(json.loads(text)))
        except (ValueError, RecursionError):
            text = _TAG.sub(" ", text)
        return " ".join(text.split())


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)
    elif isinstance(value, dict):
        for name in sorted(value, key=lambda name: name not in _SAID_FIRST):
            if name not in _REPEATED:
                yield from _texts(value[name])


async def post(
    client: httpx2.AsyncClient,
    url: str,
    request: Mapping[str, Any],
    *,
    server: str,
    setting: str,
    max_bytes: int,
    headers: Mapping[str, str] | None = None,
) -> Answer:
    """Post JSON and return the response; an error response is cut to what error messages need.

    Errors name the `server`, and `setting`, the variable with its address. Raises `ProviderUnavailable` if it cannot
    be reached, `ProviderFailed` if it answers more than `max_bytes`, or not in HTTP.
    """
    body = bytearray()
    try:
        async with client.stream("POST", url, json=request, headers=headers) as response:
            async for chunk in response.aiter_bytes():
                body += chunk
                if len(body) > (max_bytes if response.is_success else MAX_ERROR_BYTES):
                    if response.is_success:
                        raise ProviderFailed(
                            f"{server} answered with more than {max_bytes:,} bytes: ask for less at once"
                        )
                    break
    except httpx2.TransportError as error:
        raise ProviderUnavailable(
            f"{server} cannot be reached ({error or type(error).__name__}): start it, or set {setting} to where it is"
        ) from error
    except httpx2.HTTPError as error:
        raise ProviderFailed(f"{server} gave an answer that cannot be read: {error}") from error
    return Answer(status=response.status_code, headers=response.headers, body=bytes(body))


def is_too_long(words: str) -> bool:
    """Tell whether a server's message says that a text, or the requested answer, exceeds the model's window."""
    return any(phrase in words.lower() for phrase in _TOO_LONG)


def refusal(
    status: int, words: str, headers: Mapping[str, str], *, server: str, key: str, missing: str
) -> BackscrollError:
    """Return the exception for an error response.

    `words` are the server's message, `key` says what to set if it refuses the key, and `missing` what to do if it does
    not know the model.
    """
    words = words[:MAX_ERROR_CHARS]
    answered = f"{server} answers {status}"
    if status in _AWAY:
        return ProviderUnavailable(
            f"{answered}: {words}", retry_after=retry_after(headers, datetime.now(UTC))
        )
    if status in UNAUTHORIZED:
        # its message may quote the key
        return ProviderUnavailable(f"{answered}: {key}")
    if status == _NOT_FOUND:
        return ProviderUnavailable(f"{answered}: {missing}")
    if status == 413 or (status in (400, 422) and (is_too_long(words) or "max_tokens" in words)):
        return ProviderRejected(f"{answered}, the text is too long: {words}")
    return ProviderFailed(f"{answered}: {words}")


def retry_after(headers: Mapping[str, str], now: datetime) -> float | None:
    """Return the seconds until the server may be called again, if `Retry-After` says so.

    >>> now = datetime(2026, 3, 2, tzinfo=UTC)
    >>> [retry_after({"retry-after": value}, now) for value in ("7.5", "Mon, 02 Mar 2026 00:01:00 GMT", "soon", "nan")]
    [7.5, 60.0, None, None]
    """
    value = headers.get("retry-after", "")
    with suppress(ValueError):
        return max(0.0, float(value)) if isfinite(float(value)) else None
    try:
        at = parsedate_to_datetime(value)
    except ValueError:
        return None
    return max(0.0, (at.replace(tzinfo=at.tzinfo or UTC) - now).total_seconds())
