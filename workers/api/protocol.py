"""uvicorn's HTTP protocol with limits on the time and size of headers; `bodies` has those of a body.

uvicorn closes an idle connection, but not one that has begun a request and sends a byte a minute, or endless headers:
all this happens before authentication.
"""

import asyncio

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEADER_SECONDS = 20.0
"""Time for the headers of a request, from its first byte or the beginning of the connection."""
MAX_HEADER_BYTES = 64 * 1024
"""Bytes of a request's first line and headers, and of trailers after a chunked body."""

_TOLD = f'{{"title": "Headers too large", "status": 431, "detail": "At most {MAX_HEADER_BYTES} bytes are taken."}}'
_TOO_LARGE = (
    "HTTP/1.1 431 Request Header Fields Too Large\r\nConnection: close\r\n"
    f"Content-Type: application/problem+json\r\nContent-Length: {len(_TOLD)}\r\n\r\n{_TOLD}"
).encode()


class Protocol(HttpToolsProtocol):
    """One connection."""

    _late: asyncio.TimerHandle | None = None
    # bytes of the complete headers, and of all data since a piece of the body or the end of the headers
    _header_bytes = _other_bytes = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as uvicorn has it
        """Wait for the first request."""
        super().connection_made(transport)
        self._expect_headers()

    def data_received(self, data: bytes) -> None:
        """Read on, unless the headers exceed their limit."""
        self._other_bytes += len(data)
        super().data_received(data)
        if self._other_bytes > MAX_HEADER_BYTES and not self.transport.is_closing():
            self.send_400_response("")

    def send_400_response(self, msg: str) -> None:
        """Answer that the headers are too large, if they are; close the connection if an answer was begun."""
        if max(self._header_bytes, self._other_bytes) <= MAX_HEADER_BYTES:
            super().send_400_response(msg)
        elif self.cycle is not None and not self.cycle.response_complete:
            self.transport.abort()
        else:
            self.transport.write(_TOO_LARGE)
            self.transport.close()

    def on_message_begin(self) -> None:
        """Wait for the rest of the headers."""
        super().on_message_begin()
        self._header_bytes = 0
        if self._late is None:
            self._expect_headers()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header. Raises `ValueError` beyond the limit, which stops the parser."""
        self._header_bytes += len(name) + len(value) + len(": \r\n")
        if self._header_bytes > MAX_HEADER_BYTES:
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
