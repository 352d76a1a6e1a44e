"""Call servers over HTTP: a limit for the time of a whole call, verified certificates, no redirects.

Webhooks are sent to hosts that the operator allows, and to no private address unasked.
"""

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
import socket
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

from schemas.errors import InvalidInput
from schemas.settings import Settings

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


WEBHOOK_SECONDS = 15.0
"""Longest wait for a webhook."""
_PUBLIC_6 = ip_network("2000::/3")


def require_webhook_allowed(url: str, settings: Settings) -> None:
    """Raise `InvalidInput` unless the settings allow the host of a URL."""
    hosts = settings.webhook_hosts()
    if (host := _host_of(url)) not in hosts:
        raise InvalidInput(
            f"url: {host} is not among BACKSCROLL_DIGEST_HOSTS, which the operator sets "
            f"(now {', '.join(hosts) or 'none'})",
            field="url",
        )
    if urlsplit(url).scheme != "https" and not settings.webhook_networks():
        raise InvalidInput("url: must begin with https://, as people's words are sent there", field="url")


def send_webhook(url: str, headers: Mapping[str, str], body: bytes, settings: Settings) -> None:
    """Post a body of JSON to a webhook; no redirect is followed and no proxy asked.

    Raises `InvalidInput` for what the settings do not allow, `ProviderUnavailable` unless the answer is a success.
    """
    require_webhook_allowed(url, settings)
    host = _host_of(url)
    try:
        status, wait = run_within(WEBHOOK_SECONDS, lambda: _post(url, host, headers, body, settings))
    except TimeoutError:
        raise ProviderUnavailable(f"{host} did not answer within {WEBHOOK_SECONDS:g} s") from None
    if not 200 <= status < 300:
        followed = ", and redirects are not followed" if 300 <= status < 400 else ""
        raise ProviderUnavailable(f"{host} answered {status}{followed}", retry_after=wait)


def _host_of(url: str) -> str:
    """Return a URL's host in ASCII. Raises `InvalidInput` for one that no name server knows."""
    host = (urlsplit(url).hostname or "").rstrip(".")
    try:
        return host.encode("idna").decode()
    except UnicodeError:
        raise InvalidInput(f"url: {host[:100]!r} is no name of a host", field="url") from None


async def _post(
    url: str, host: str, headers: Mapping[str, str], body: bytes, settings: Settings
) -> tuple[int, float | None]:
    """Post to the very address that was checked, whatever the name means a moment later.

    Returns the status, and in how many seconds to try again.
    """
    import httpx2

    parts = urlsplit(url)
    address = await _address(host, settings, encrypted=parts.scheme == "https")
    port = f":{parts.port}" if parts.port else ""
    at = f"[{address}]{port}" if address.version == 6 else f"{address}{port}"
    async with http_client(url, by_proxy=False) as client:
        request = client.build_request(
            "POST",
            parts._replace(netloc=at, fragment="").geturl(),
            content=body,
            headers={
                **headers,
                "Host": (f"[{host}]" if ":" in host else host) + port,
                "Content-Type": "application/json",
            },
            extensions={"sni_hostname": host},
        )
        try:
            response = await client.send(request, stream=True)
            # what it says is not read
            await response.aclose()
        except httpx2.TransportError as error:
            raise ProviderUnavailable(f"{host} cannot be reached: {type(error).__name__}") from None
    return response.status_code, retry_after(response.headers, datetime.now(UTC))


async def _address(host: str, settings: Settings, *, encrypted: bool) -> IPv4Address | IPv6Address:
    """Return an address of a host, if all are allowed. Raises as `send` does."""
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError as error:
        raise ProviderUnavailable(f"{host} has no address: {error.strerror or error}") from None
    addresses = [ip_address(str(entry[4][0]).partition("%")[0]) for entry in found]
    for address in addresses:
        named = any(address in network for network in settings.webhook_networks())
        if not named and not (encrypted and is_public(address)):
            why = "is not public" if encrypted else "is called without encryption"
            raise InvalidInput(
                f"url: {host} is {address}, which {why} and is not named in BACKSCROLL_DIGEST_HOSTS",
                field="url",
            )
    return addresses[0]


def is_public(address: IPv4Address | IPv6Address) -> bool:
    """Tell whether an address is of the public network, and holds no other address.

    >>> texts = ("8.8.8.8", "127.0.0.1", "169.254.169.254", "2606:4700::1", "::ffff:8.8.8.8", "2002:7f00:1::")
    >>> [is_public(ip_address(text)) for text in texts]
    [True, False, False, True, False, False]
    """
    if isinstance(address, IPv6Address) and (
        address not in _PUBLIC_6 or address.sixtofour is not None or address.teredo is not None
    ):
        return False
    return address.is_global and not address.is_multicast
