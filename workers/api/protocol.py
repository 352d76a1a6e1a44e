"""uvicorn's HTTP protocol with limits on connections, and on time and size of headers; `bodies` has those of a body.

uvicorn closes an idle connection, but not one that has begun a request and sends a byte a minute, or endless headers,
or reads no answer: all this happens before authentication.
"""

import asyncio
import heapq
from http import HTTPStatus

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MAX_CONNECTIONS = 1000
DISPLACED = 100
"""Connections of a process, and how many of them, those that have waited longest for their client, make way for others
then. If none waits, requests are answered 503."""
HEADER_SECONDS = 20.0
"""Time for the headers of a request, from its first byte or the beginning of the connection."""
MAX_HEADER_BYTES = 16 * 1024
"""Bytes of a request's headers, and of trailers after a chunked body."""
MAX_URL_BYTES = 8 * 1024
"""Bytes of a request's path and query, which hold at most two ids of 255 characters."""


def _problem(status: HTTPStatus, most: int) -> bytes:
    told = f'{{"title": "{status.phrase}", "status": {status}, "detail": "At most {most} bytes are taken."}}'
    return (
        f"HTTP/1.1 {status} {status.phrase}\r\nConnection: close\r\n"
        f"Content-Type: application/problem+json\r\nContent-Length: {len(told)}\r\n\r\n{told}"
    ).encode()


_LARGE_HEADERS = _problem(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, MAX_HEADER_BYTES)
_LONG_URL = _problem(HTTPStatus.REQUEST_URI_TOO_LONG, MAX_URL_BYTES)


class Protocol(HttpToolsProtocol):
    """One connection."""

    _late: asyncio.TimerHandle | None = None
    # bytes of the complete headers, and of all data since a piece of the body or the end of the headers
    _header_bytes = _other_bytes = 0
    _refusal: bytes | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as uvicorn has it
        """Wait for the first request."""
        super().connection_made(transport)
        self._heard_at = self.loop.time()
        self._expect_headers()
        if len(self.connections) >= MAX_CONNECTIONS:
            others = (
                other for other in self.connections if isinstance(other, Protocol) and other is not self
            )
            waiting = (other for other in others if other._waits_for_client)
            for other in heapq.nsmallest(DISPLACED, waiting, key=lambda other: other._heard_at):
                self.connections.discard(other)
                other.transport.abort()

    @property
    def _waits_for_client(self) -> bool:
        """Whether nothing is being done here before the client has sent or read more."""
        cycle = self.cycle
        return cycle is None or cycle.response_complete or cycle.more_body or self.flow.write_paused

    def data_received(self, data: bytes) -> None:
        """Read on, unless the headers exceed their limit."""
        self._heard_at = self.loop.time()
        self._other_bytes += len(data)
        super().data_received(data)
        if self._other_bytes > MAX_URL_BYTES + MAX_HEADER_BYTES and not self.transport.is_closing():
            self._refusal = _LARGE_HEADERS
            self.send_400_response("")

    def send_400_response(self, msg: str) -> None:
        """Answer what is too large, if something is; close the connection if an answer was begun."""
        if self._refusal is None:
            super().send_400_response(msg)
        elif self.cycle is not None and not self.cycle.response_complete:
            self.transport.abort()
        else:
            self.transport.write(self._refusal)
            self.transport.close()

    def on_message_begin(self) -> None:
        """Wait for the rest of the headers."""
        super().on_message_begin()
        self._header_bytes = 0
        if self._late is None:
            self._expect_headers()

    def on_url(self, url: bytes) -> None:
        """Take a piece of the URL. Raises `ValueError` beyond the limit, which stops the parser."""
        super().on_url(url)
        if len(self.url) > MAX_URL_BYTES:
            self._refusal = _LONG_URL
            raise ValueError("too long")

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header. Raises `ValueError` beyond the limit."""
        self._header_bytes += len(name) + len(value) + len(": \r\n")
        if self._header_bytes > MAX_HEADER_BYTES:
            self._refusal = _LARGE_HEADERS
            raise ValueError("too large")
        super().on_header(name, value)

    def on_body(self, body: bytes) -> None:
        """Take a piece of a body."""
        self._other_bytes = 0
        super().on_body(body)

    def on_headers_complete(self) -> None:
        """Take the request."""
        self._other_bytes = 0
        self._stop_waiting()
        super().on_headers_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._stop_waiting()
        super().connection_lost(exc)

    def _expect_headers(self) -> None:
        self._late = self.loop.call_later(HEADER_SECONDS, self.transport.abort)

    def _stop_waiting(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None
