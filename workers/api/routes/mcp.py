"""`/mcp`: the tools for language models over streamable HTTP, without sessions: any process answers any request."""

from fastapi import APIRouter, Request
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from workers.api.api_route import DirectRoute
from workers.api.bodies import read

router = APIRouter(route_class=DirectRoute)


# it speaks JSON-RPC, which the description of the HTTP API says nothing about
@router.post("/mcp", response_model=None, include_in_schema=False)
async def post_mcp(request: Request) -> ASGIApp:
    """Answer one message of a client with the tools that its key may use."""
    unread = [{"type": "http.request", "body": await read(request), "more_body": False}]
    tools: StreamableHTTPSessionManager = request.app.state.mcp

    async def receive() -> Message:
        return unread.pop() if unread else await request.receive()

    async def answer(scope: Scope, _receive: Receive, send: Send) -> None:
        await tools.handle_request(scope, receive, send)

    return answer
