"""`POST /v1/search` and `POST /v1/more`: what a chat's memory holds, and what else was said in a session."""

from fastapi import APIRouter, Response

from pipeline.context import more, search
from pipeline.store.retry import persistently
from schemas.search import MoreQuery, MoreResult, SearchQuery, SearchResult
from workers.api.auth import Tenant
from workers.api.bodies import Body, parse
from workers.api.door import HeldDoor
from workers.api.errors import responses
from workers.api.openapi import MORE_BODY, SEARCH_BODY

router = APIRouter(tags=["contexts"])


@router.post(
    "/v1/search",
    response_model=SearchResult,
    summary="Search a chat",
    responses=responses(401, 404, 408, 413, 422, 503),
    openapi_extra=SEARCH_BODY,
)
def post_search(door: HeldDoor, tenant: Tenant, body: Body) -> Response:
    """Messages of a chat (modes `hybrid`, `similar`, `exact`), or its sessions (`contextual`, `topic`).

    `topic` with `since` or `until` lists every session on a theme in order of time: "haven't I …?".
    """
    query = parse(SearchQuery, body)
    found = persistently(
        lambda: search(door.database, tenant, query, embedder=door.embedder, settings=door.settings)
    )
    return Response(found.model_dump_json(), media_type="application/json")


@router.post(
    "/v1/more",
    response_model=MoreResult,
    summary="Tell more of a session",
    responses=responses(401, 404, 408, 413, 422, 503),
    openapi_extra=MORE_BODY,
)
def post_more(door: HeldDoor, tenant: Tenant, body: Body) -> Response:
    """Messages of a session around those that an earlier answer showed, nothing twice.

    `next` is the body of the next page, to be sent as it is; null when all of the session was shown.
    """
    query = parse(MoreQuery, body)
    found = persistently(lambda: more(door.database, tenant, query, settings=door.settings))
    return Response(found.model_dump_json(), media_type="application/json")
