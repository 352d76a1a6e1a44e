"""`POST /v1/context`: a question in, the context for the bot's answer out."""

from fastapi import APIRouter, Response

from pipeline.context import build_context
from pipeline.store.retry import persistently
from schemas.context import Context
from schemas.payloads import ContextQuery
from workers.api.auth import Tenant
from workers.api.bodies import Body, parse
from workers.api.door import HeldDoor
from workers.api.errors import responses
from workers.api.openapi import CONTEXT_BODY

router = APIRouter(tags=["contexts"])


def as_json(context: Context) -> str:
    """The context as JSON.

    What was not asked for (`explain`, and `memories` and `usedHistoryTokens` outside the profile `ask`) is
    left out; inside of what is there every field is, null where there is nothing to say, so that items of
    all kinds can be read alike.
    """
    absent = {name for name in type(context).model_fields if getattr(context, name) is None}
    return context.model_dump_json(exclude=absent)


@router.post(
    "/v1/context",
    response_model=Context,
    summary="Get the context for an answer",
    responses=responses(401, 404, 408, 413, 422, 503),
    openapi_extra=CONTEXT_BODY,
)
def post_context(door: HeldDoor, tenant: Tenant, body: Body) -> Response:
    """What a bot puts before its model: recent messages, and what earlier sessions say about the question.

    `text` is the whole as one text, `messages` the same for a chat model, `blocks` its parts with a reason
    for every line. `explain`, `memories` and `usedHistoryTokens` are there only when asked for.
    """
    query = parse(ContextQuery, body)
    context = persistently(
        lambda: build_context(
            door.database,
            tenant,
            query,
            embedder=door.embedder,
            settings=door.settings,
            reranker=door.reranker,
        )
    )
    return Response(as_json(context), media_type="application/json")
