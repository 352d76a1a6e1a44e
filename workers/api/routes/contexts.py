"""`POST /v1/context`, its answer, `/v1/search` and `/v1/more`: what a bot asks before it answers."""

from fastapi import APIRouter, Response

from pipeline.recall import build_context, more, query_log, search
from schemas.context import AnswerIn, AnswerReceipt, Context
from schemas.messages import Id
from schemas.payloads import ContextQuery
from schemas.search import MoreQuery, MoreResult, SearchQuery, SearchResult
from workers.api.api_route import ApiRoute
from workers.api.bodies import Body
from workers.api.errors import responses
from workers.api.state import Api, Tenant

router = APIRouter(tags=["contexts"], route_class=ApiRoute)


def as_json(context: Context) -> str:
    """Write a context as JSON.

    Top-level fields that were not asked for (`explain`; `memories` and `usedHistoryTokens` outside the profile `ask`)
    are left out. All others are there, null where they have no value, so that items of all kinds read alike.
    """
    absent = {name for name in ("explain", "memories", "usedHistoryTokens") if getattr(context, name) is None}
    return context.model_dump_json(exclude=absent)


@router.post(
    "/v1/context", response_model=Context, summary="Get the context for an answer", responses=responses(404)
)
def post_context(api: Api, tenant: Tenant, query: Body[ContextQuery]) -> Response:
    """Return what a bot puts before its model: recent messages, and what earlier sessions say about the question.

    `text` is the whole context as one text, `messages` the same for a chat model, `blocks` its parts with a reason
    for every line. `explain`, `memories` and `usedHistoryTokens` are there only when asked for.
    """
    context = build_context(
        api.database,
        tenant,
        query,
        embedder=api.embedders,
        settings=api.settings,
        reranker=api.reranker,
        gateway=api.gateway,
    )
    return Response(as_json(context), media_type="application/json")


@router.post(
    "/v1/contexts/{context_id}/answer", summary="Report the answer to a context", responses=responses(404)
)
def post_answer(api: Api, tenant: Tenant, context_id: Id, answer: Body[AnswerIn]) -> AnswerReceipt:
    """Store an answer in the query log and, with `remember`, question and answer as a memory.

    Sending the same again is harmless: the first answer to a context stays.
    """
    receipt = query_log.report(api.database, tenant, context_id, answer, api.settings)
    if receipt.memory_id is not None:
        api.waker.wake_up("embed")
    return receipt


@router.post("/v1/search", summary="Search a chat", responses=responses(404))
def post_search(api: Api, tenant: Tenant, query: Body[SearchQuery]) -> SearchResult:
    """Find messages of a chat (modes `hybrid`, `similar`, `exact`), or its sessions (`contextual`, `topic`).

    `topic` with `since` or `until` lists all sessions on a theme in order of time: "haven't I …?".
    """
    return search(
        api.database, tenant, query, embedder=api.embedders, settings=api.settings, gateway=api.gateway
    )


@router.post("/v1/more", summary="Read more of a session", responses=responses(404))
def post_more(api: Api, tenant: Tenant, query: Body[MoreQuery]) -> MoreResult:
    """Return messages of a session around those that an earlier answer showed, none twice.

    `next` is the body for the next page, to be sent as it is; null when the whole session was shown.
    """
    return more(api.database, tenant, query, settings=api.settings)
