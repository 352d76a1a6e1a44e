"""`/v1/digest` and `/v1/digests`: what somebody missed in a chat, when they ask and every day."""

from fastapi import APIRouter, Response

from pipeline.operations import digests
from pipeline.recall import digest
from schemas.digests import DailyDigest, DailyDigestIn, DailyDigestList, Digest, DigestQuery, NewDailyDigest
from schemas.messages import RowId
from workers.api.api_route import ApiRoute
from workers.api.bodies import Body
from workers.api.errors import responses
from workers.api.state import Api, ByCaller, Tenant

router = APIRouter(tags=["digests"], route_class=ApiRoute)


@router.post("/v1/digest", summary="Get what somebody missed", responses=responses(404))
def post_digest(api: Api, tenant: Tenant, query: Body[DigestQuery]) -> Digest:
    """Return what happened in a chat since a person last wrote there, or since a time, within a token budget.

    The sessions of that time in order with their summaries, what was decided, what was asked of the person and is
    open, and who joined and left. `text` is all of it for a person to read.
    """
    return digest.build(api.database, tenant, query, api.settings)


@router.post("/v1/digests", status_code=201, summary="Send a digest every day", responses=responses(404))
def post_digests(
    api: Api, caller: ByCaller, wanted: Body[DailyDigestIn], response: Response
) -> NewDailyDigest:
    """Send a chat's digest of the last day to a webhook, once a day; the `secret` that signs it is shown this once.

    It ends with the key that makes it. A webhook that does not take it is called again for some eight hours; what did
    not arrive is in the next one.
    """
    response.headers["Cache-Control"] = "no-store"
    return digests.add(api.database, caller.key.tenant, wanted, caller.key.id, api.settings)


@router.get("/v1/digests", summary="List daily digests")
def get_digests(api: Api, tenant: Tenant) -> DailyDigestList:
    """Return the daily digests, the oldest first, without their secrets."""
    return DailyDigestList(digests=digests.listing(api.database, tenant))


@router.delete("/v1/digests/{digest_id}", summary="Remove a daily digest", responses=responses(404))
def delete_digest(api: Api, tenant: Tenant, digest_id: RowId) -> DailyDigest:
    """Remove a daily digest; nothing is sent any more."""
    return digests.remove(api.database, tenant, digest_id)
