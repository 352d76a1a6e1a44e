"""Let clients read an answer sent before their whole body arrived, such as a 413 or a 401: an ASGI middleware.

uvicorn closes a connection after its answer when the request says `Connection: close`, as Python's urllib does; with
unread bytes this resets the connection, and most clients then lose the answer. On other connections it reads on without
a limit. So the answer is sent at once, and the body is read and dropped up to a limit before the close.
"""

import asyncio
from contextlib import suppress

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

LINGER_BYTES = 32 * 1024 * 1024
LINGER_SECONDS = 10.0


class Linger:
    """Reads on after an early answer, up to `LINGER_BYTES` and `LINGER_SECONDS`."""

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
                # by then the client has had time to read the answer
                with suppress(TimeoutError):
                    async with asyncio.timeout(LINGER_SECONDS):
                        await discard()
                await send({"type": "http.response.body", "body": b"", "more_body": False})

        await self.app(scope, receive_watched, send_watched)
