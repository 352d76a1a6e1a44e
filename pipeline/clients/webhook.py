"""Send webhooks to hosts that the operator allows, and to no private address unasked."""

import asyncio
import socket
from collections.abc import Mapping
from datetime import UTC, datetime
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from urllib.parse import urlsplit

from pipeline.clients.http_calls import http_client, retry_after, run_within
from schemas.errors import InvalidInput, ProviderUnavailable
from schemas.settings import Settings

SECONDS = 15.0
"""Longest wait for the whole call."""
_PUBLIC_6 = ip_network("2000::/3")


def require_allowed(url: str, settings: Settings) -> None:
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


def send(url: str, headers: Mapping[str, str], body: bytes, settings: Settings) -> None:
    """Post a body of JSON; no redirect is followed and no proxy asked.

    Raises `InvalidInput` for what the settings do not allow, `ProviderUnavailable` unless the answer is a success.
    """
    require_allowed(url, settings)
    host = _host_of(url)
    try:
        status, wait = run_within(SECONDS, lambda: _post(url, host, headers, body, settings))
    except TimeoutError:
        raise ProviderUnavailable(f"{host} did not answer within {SECONDS:g} s") from None
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
