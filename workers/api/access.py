"""ASGI middlewares: an id for each request, a log line, an answer to any error, and time to read it.

The line contains no body, query string, header or id from the path.

uvicorn closes a connection after its answer when the request says `Connection: close`, as Python's urllib does; with
unread bytes this resets the connection, and most clients then lose the answer. On other connections it reads on without
a limit. So the answer is sent at once, and the body is read and dropped up to a limit before the close.
"""

import asyncio
import time
from contextlib import suppress

import structlog
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from schemas.errors import InvalidInput
from workers.api import keyring
from workers.api.problems import as_problem, as_response
from workers.envelope import acceptable_id
from workers.logging import write_line
from workers.signals import REQUEST_ID, request_id_of
from workers.tracing import name_request

ACCESS = "backscroll.access"
log = structlog.get_logger(ACCESS)

HEADER = "X-Request-ID"
MAX_PARAMETERS = 100
# health checks come every few seconds
QUIET = {"/healthz", "/readyz"}


class AccessLog:
    """Gives each request its id and its log line."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        scope["headers"] = keyring.own_only(scope["headers"])
        request_id = request_id_of(name_request(acceptable_id(Headers(scope=scope).get(HEADER))))
        started = time.perf_counter()
        status = 0

        async def send_with_id(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                MutableHeaders(scope=message)[HEADER] = request_id
            await send(message)

        with structlog.contextvars.bound_contextvars(**{REQUEST_ID: request_id}):
            try:
                _require_few_parameters(scope)
                await self.app(scope, receive, send_with_id)
            except ClientDisconnect:
                log.info("client_left")
            except Exception as error:
                problem = as_problem(error)
                if status:
                    # half the answer is sent: only a broken connection tells the client that the rest will not come
                    raise
                await as_response(problem)(scope, receive, send_with_id)
            finally:
                write_line(
                    ACCESS,
                    "debug" if scope["path"] in QUIET else "info",
                    event="request",
                    method=scope["method"],
                    # a path contains ids of people, who may be forgotten while logs are kept
                    path=getattr(scope.get("route"), "path", "unknown"),
                    status=status,
                    milliseconds=round((time.perf_counter() - started) * 1000, 1),
                    client=(scope.get("client") or ("",))[0],
                )


def _require_few_parameters(scope: Scope) -> None:
    if scope.get("query_string", b"").count(b"&") >= MAX_PARAMETERS:
        raise InvalidInput(f"a query has at most {MAX_PARAMETERS} parameters", field="query")


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
