"""Lets senders hear an answer that was ready before their whole body was read, such as a 413 or a 401.

A connection that is closed with unread bytes is reset, and most clients then lose the answer that they have
already been sent. So the answer goes out at once, and what still comes is read and thrown away for a while
before the connection is closed. An ASGI middleware.
"""

import asyncio

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

LINGER_BYTES = 32 * 1024 * 1024
LINGER_SECONDS = 10.0


class Linger:
    """Reads on after an early answer, for so many bytes and seconds."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        unread = headers.get("content-length", "0") != "0" or "transfer-encoding" in headers

        async def receive_watched() -> Message:
            nonlocal unread
            message = await receive()
            unread = unread and bool(message.get("more_body"))
            return message

        async def discard() -> None:
            left = LINGER_BYTES
            while unread and left > 0:
                left -= len((await receive_watched()).get("body", b""))

        async def send_watched(message: Message) -> None:
            if not unread:
                await send(message)
            elif message["type"] == "http.response.start":
                MutableHeaders(scope=message)["Connection"] = "close"
                await send(message)
            elif message.get("more_body"):
                await send(message)
            else:
                await send({**message, "more_body": True})
                try:
                    async with asyncio.timeout(LINGER_SECONDS):
                        await discard()
                except TimeoutError:
                    # who has not sent it by now has had the time to read the answer
                    pass
                await send({"type": "http.response.body", "body": b"", "more_body": False})

        await self.app(scope, receive_watched, send_watched)
