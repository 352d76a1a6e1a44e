"""`/mcp`: the tools for language models over streamable HTTP, without sessions: any process answers any request."""

from fastapi import APIRouter, Request, Response

from workers.api.api_route import DirectRoute
from workers.api.bodies import received
from workers.api.errors import responses
from workers.mcp.mounted import MAX_CALL_BYTES, Tools

router = APIRouter(tags=["tools"], route_class=DirectRoute)


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
