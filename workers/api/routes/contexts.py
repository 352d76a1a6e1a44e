"""`POST /v1/context`, its answer, `/v1/search`, `/v1/more` and digests: what a bot asks of a chat."""

from fastapi import APIRouter, Response

from pipeline.operations import daily_digests
from pipeline.recall import build_context, digest, more, query_log, search
from schemas.context import AnswerIn, AnswerReceipt, Context
from schemas.digests import DailyDigest, DailyDigestIn, DailyDigestList, Digest, DigestQuery, NewDailyDigest
from schemas.messages import Id, RowId
from schemas.payloads import ContextQuery
from schemas.search import MoreQuery, MoreResult, SearchQuery, SearchResult
from workers.api.api_route import ApiRoute
from workers.api.bodies import Body
from workers.api.problems import responses
from workers.api.state import Api, ByCaller, Tenant

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


digests_router = APIRouter(tags=["digests"], route_class=ApiRoute)


@digests_router.post("/v1/digest", summary="Get what somebody missed", responses=responses(404))
def post_digest(api: Api, tenant: Tenant, query: Body[DigestQuery]) -> Digest:
    """Return what happened in a chat since a person last wrote there, or since a time, within a token budget.

    The sessions of that time in order with their summaries, what was decided, what was asked of the person and is
    open, and who joined and left. `text` is all of it for a person to read.
    """
    return digest.build(api.database, tenant, query, api.settings)


@digests_router.post(
    "/v1/digests", status_code=201, summary="Send a digest every day", responses=responses(404)
)
def post_digests(
    api: Api, caller: ByCaller, wanted: Body[DailyDigestIn], response: Response
) -> NewDailyDigest:
    """Send a chat's digest of the last day to a webhook, once a day; the `secret` that signs it is shown this once.

    It ends with the key that makes it. A webhook that does not take it is called again for some eight hours; what did
    not arrive is in the next one.
    """
    response.headers["Cache-Control"] = "no-store"
    return daily_digests.add(api.database, caller.key.tenant, wanted, caller.key.id, api.settings)


@digests_router.get("/v1/digests", summary="List daily digests")
def get_digests(api: Api, tenant: Tenant) -> DailyDigestList:
    """Return the daily digests, the oldest first, without their secrets."""
    return DailyDigestList(digests=daily_digests.listing(api.database, tenant))


@digests_router.delete("/v1/digests/{digest_id}", summary="Remove a daily digest", responses=responses(404))
def delete_digest(api: Api, tenant: Tenant, digest_id: RowId) -> DailyDigest:
    """Remove a daily digest; nothing is sent any more."""
    return daily_digests.remove(api.database, tenant, digest_id)
