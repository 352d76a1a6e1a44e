"""uvicorn's HTTP protocol with a time limit for headers; `bodies` limits the time for a body.

uvicorn ends an idle connection, but not one that has begun a request and sends a byte a minute.
"""

import asyncio

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEADER_SECONDS = 20.0
"""The time for the headers of a request, from its first byte or from the beginning of the connection."""


class Protocol(HttpToolsProtocol):
    """One connection."""

    _late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as uvicorn has it
        """Wait for the first request."""
        super().connection_made(transport)
        self._expect_headers()

    def on_message_begin(self) -> None:
        """Wait for the rest of the headers."""
        super().on_message_begin()
        if self._late is None:
            self._expect_headers()

    def on_headers_complete(self) -> None:
        """Take the request."""
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
