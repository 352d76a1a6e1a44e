"""Give every request an id that follows it to the last task, a log line, and an answer to any error.

An ASGI middleware. The line contains no body, query string, header or id from the path.
"""

import time

import structlog
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from schemas.errors import InvalidInput
from workers.api.errors import as_problem, as_response
from workers.api.inspector import cookie
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


class Access:
    """Gives each request its id and its log line."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        scope["headers"] = cookie.own_only(scope["headers"])
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
