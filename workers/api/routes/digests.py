"""`/v1/digest` and `/v1/digests`: what somebody missed in a chat, when they ask and every day."""

from fastapi import APIRouter

from pipeline.recall import digest
from schemas.digests import Digest, DigestQuery
from workers.api.api_route import ApiRoute
from workers.api.bodies import Body
from workers.api.errors import responses
from workers.api.state import Api, Tenant

router = APIRouter(tags=["digests"], route_class=ApiRoute)


@router.post("/v1/digest", summary="Get what somebody missed", responses=responses(404))
def post_digest(api: Api, tenant: Tenant, query: Body[DigestQuery]) -> Digest:
    """Return what happened in a chat since a person last wrote there, or since a time, within a token budget.

    The sessions of that time in order with their summaries, what was decided, what was asked of the person and is
    open, and who joined and left. `text` is all of it for a person to read.
    """
    return digest.build(api.database, tenant, query, api.settings)
