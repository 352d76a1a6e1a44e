"""`/v1/keys`: the API keys of the caller's tenant, made, listed, rotated and revoked."""

from fastapi import APIRouter, Response

from pipeline.people import api_keys
from schemas.bots.keys import CurrentKey, KeyIn, KeyList, ListedKey, NewKey, Rotation
from schemas.messages import RowId
from workers.api.api_route import ApiRoute
from workers.api.bodies import Body
from workers.api.errors import responses
from workers.api.state import Api, ByCaller, Tenant

router = APIRouter(tags=["keys"], route_class=ApiRoute)

_SECRET = {"Cache-Control": "no-store"}


@router.get("/v1/keys/current", summary="Show the key of this request")
async def get_current_key(caller: ByCaller) -> CurrentKey:
    """Return the tenant, scopes, chats and limits of the key that this request carries."""
    return caller.key


@router.post("/v1/keys", status_code=201, summary="Create a key")
def post_key(api: Api, caller: ByCaller, new_key: Body[KeyIn], response: Response) -> NewKey:
    """Create a key of the same tenant; its secret, `key`, is shown this once.

    A key can grant neither scopes that it lacks nor weaker limits than its own. The new key works at once.
    """
    response.headers.update(_SECRET)
    return api_keys.create(api.database, caller.tenant, new_key, caller.key)


@router.get("/v1/keys", summary="List keys")
def get_keys(api: Api, tenant: Tenant) -> KeyList:
    """Return the newest keys of the tenant without their secrets, revoked and expired ones too."""
    return KeyList(keys=api_keys.listing(api.database, tenant))


@router.post("/v1/keys/{key_id}/rotate", summary="Give a key a new secret", responses=responses(404, 409))
def post_rotation(
    api: Api, caller: ByCaller, key_id: RowId, rotation: Body[Rotation], response: Response
) -> NewKey:
    """Give a key a new secret, which is shown this once; the one until now works for `keep_hours` more.

    At most two secrets are valid at once: an earlier one ends with the next rotation.
    """
    response.headers.update(_SECRET)
    return api_keys.rotate(api.database, caller.tenant, key_id, rotation, caller.key)


@router.delete("/v1/keys/{key_id}", summary="Revoke a key", responses=responses(404))
def delete_key(api: Api, tenant: Tenant, key_id: RowId) -> ListedKey:
    """Revoke a key for good: within 5 seconds every process refuses it. Sending the same again is harmless."""
    return api_keys.revoke(api.database, tenant, key_id)
