"""The MCP tools inside the HTTP API, which they call without a connection."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread
import httpx2
from anyio.abc import TaskGroup, TaskStatus
from starlette.types import ASGIApp, Receive, Scope, Send

from workers.api.access import HEADER
from workers.api.admission import COUNTED
from workers.api.bodies import MAX_BODY_BYTES
from workers.api.errors import request_id

if TYPE_CHECKING:
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager


class Tools:
    """The MCP server of an application, imported and started by its first request.

    Most bots send none, and importing it takes a sixth of the HTTP API's start.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._starting = anyio.Lock()
        self._tasks: TaskGroup | None = None
        self._manager: StreamableHTTPSessionManager | None = None

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Allow requests to be answered, and end the server afterwards."""
        async with anyio.create_task_group() as self._tasks:
            yield
            self._tasks.cancel_scope.cancel()

    async def answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, while `running`."""
        async with self._starting:
            if self._manager is None:
                if self._tasks is None:
                    raise RuntimeError("the application has not been started")
                self._manager = await self._tasks.start(self._serve)
        await self._manager.handle_request(scope, receive, send)

    async def _serve(self, *, task_status: TaskStatus["StreamableHTTPSessionManager"]) -> None:
        manager = await anyio.to_thread.run_sync(self._make)
        async with manager.run():
            task_status.started(manager)
            await anyio.sleep_forever()

    def _make(self) -> "StreamableHTTPSessionManager":
        from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

        from workers.mcp.server import make_server

        client = httpx2.AsyncClient(transport=httpx2.ASGITransport(self._call), base_url="http://backscroll")
        # Host is not checked, as deployments have their own names: a page that rebinds DNS has no key to send
        return StreamableHTTPSessionManager(
            make_server(client), stateless=True, json_response=True, max_request_body_size=MAX_BODY_BYTES
        )

    async def _call(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Call a route with the tool request's id, which the key's rate has counted already."""
        headers = [*scope["headers"], (HEADER.lower().encode(), request_id().encode())]
        await self._app({**scope, "headers": headers, COUNTED: True}, receive, send)
