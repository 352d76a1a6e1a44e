"""`/mcp`: the tools for language models over streamable HTTP, without sessions: any process answers any request."""

from fastapi import APIRouter, Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from workers.api.api_route import DirectRoute
from workers.api.bodies import read
from workers.api.errors import responses
from workers.mcp.mounted import Tools

router = APIRouter(tags=["tools"], route_class=DirectRoute)


@router.post(
    "/mcp", response_model=None, summary="Offer tools to a language model", responses=responses(408, 413)
)
async def post_mcp(request: Request) -> ASGIApp:
    """Answer a message of the Model Context Protocol: streamable HTTP, without sessions.

    The tools are those of the key's scopes; each calls the route of this API that does the same.
    """
    unread = [{"type": "http.request", "body": await read(request), "more_body": False}]
    tools: Tools = request.app.state.tools

    async def receive() -> Message:
        return unread.pop() if unread else await request.receive()

    async def answer(scope: Scope, _receive: Receive, send: Send) -> None:
        await tools.answer(scope, receive, send)

    return answer
