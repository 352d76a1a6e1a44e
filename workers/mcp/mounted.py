"""`/mcp`: the MCP tools inside the HTTP API, which they call without a connection."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from typing import TYPE_CHECKING

import anyio
import httpx2
from anyio import to_thread
from anyio.from_thread import BlockingPortal, start_blocking_portal
from fastapi import APIRouter, Request, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from workers.api.access import HEADER
from workers.api.admission import COUNTED
from workers.api.api_route import DirectRoute
from workers.api.bodies import received
from workers.api.problems import request_id, responses

if TYPE_CHECKING:
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager


MAX_CALL_BYTES = 2**20
"""Size of a message; the longest memory fits, with all its characters escaped."""


class Tools:
    """The MCP server of an application, imported and started by its first request.

    Most bots send none, and importing it takes a sixth of the HTTP API's start. Its library parses in the event loop,
    and so has a loop of its own, in a thread.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._starting = anyio.Lock()
        self._open = ExitStack()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._portal: BlockingPortal | None = None

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Allow requests to be answered, and end the server afterwards."""
        self._loop = asyncio.get_running_loop()
        try:
            yield
        finally:
            await to_thread.run_sync(self._open.close)

    async def answer(self, request: Request, body: bytes) -> Response:
        """Answer a request, while `running`."""
        async with self._starting:
            if self._portal is None:
                self._portal = await to_thread.run_sync(self._start)
        answering = self._portal.start_task_soon(self._handle, request.headers.raw, body)
        return await asyncio.wrap_future(answering)

    def _start(self) -> BlockingPortal:
        portal = self._open.enter_context(start_blocking_portal())
        manager = self._make()
        self._open.enter_context(portal.wrap_async_context_manager(manager.run()))
        self._server = httpx2.AsyncClient(transport=httpx2.ASGITransport(manager.handle_request))
        return portal

    async def _handle(self, headers: list[tuple[bytes, bytes]], body: bytes) -> Response:
        """Answer a request in the server's loop."""
        answer = await self._server.post("http://tools/mcp", headers=headers, content=body)
        return Response(answer.content, answer.status_code, dict(answer.headers))

    def _make(self) -> "StreamableHTTPSessionManager":
        from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

        from workers.mcp.server import make_server

        assert self._loop is not None  # noqa: S101 - it is running
        client = httpx2.AsyncClient(transport=_InLoop(self._loop, self._call), base_url="http://backscroll")
        # Host is not checked, as deployments have their own names: a page that rebinds DNS has no key to send
        return StreamableHTTPSessionManager(
            make_server(client), stateless=True, json_response=True, max_request_body_size=MAX_CALL_BYTES
        )

    async def _call(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Call a route with the tool request's id, which the key's rate has counted already."""
        headers = [*scope["headers"], (HEADER.lower().encode(), request_id().encode())]
        await self._app({**scope, "headers": headers, COUNTED: True}, receive, send)


class _InLoop(httpx2.ASGITransport):
    """Calls an application in its own event loop, from another."""

    def __init__(self, loop: asyncio.AbstractEventLoop, app: ASGIApp) -> None:
        super().__init__(app)
        self._loop = loop

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        called = super().handle_async_request(request)
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(called, self._loop))


router = APIRouter(tags=["tools"], route_class=DirectRoute)


@router.post("/mcp/", include_in_schema=False)
@router.post(
    "/mcp", response_model=None, summary="Offer tools to a language model", responses=responses(408, 413)
)
async def post_mcp(request: Request) -> Response:
    """Answer a message of the Model Context Protocol: streamable HTTP, without sessions.

    The tools are those of the key's scopes; each calls the route of this API that does the same.
    """
    tools: Tools = request.app.state.tools
    async with received(request, MAX_CALL_BYTES) as body:
        pass
    return await tools.answer(request, body)
