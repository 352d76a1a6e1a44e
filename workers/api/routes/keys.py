"""`/v1/keys` and `/v1/sources`: a tenant's API keys, and the URLs to which platforms send events themselves."""

import secrets
from typing import Any

from fastapi import APIRouter, Response
from sqlalchemy import Row

from pipeline.people import api_keys
from pipeline.people.api_keys import GrantsTooMuch
from pipeline.platforms import webhooks
from pipeline.store import api_keys as store
from pipeline.store.chats import chats
from schemas.bots import (
    CurrentKey,
    KeyIn,
    KeyList,
    ListedKey,
    NewKey,
    NewSource,
    Rotation,
    Source,
    SourceIn,
    SourceList,
)
from schemas.errors import InvalidInput, NotFound
from schemas.messages import Id, RowId
from workers.api.api_route import ApiRoute
from workers.api.bodies import Body
from workers.api.problems import responses
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


sources_router = APIRouter(tags=["sources"], route_class=ApiRoute)


@sources_router.post("/v1/sources", status_code=201, summary="Add a source")
def post_source(api: Api, tenant: Tenant, caller: ByCaller, source: Body[SourceIn]) -> NewSource:
    """Make a URL for a platform's own hook; its secret is shown this once, if it is made here.

    Whoever has the secret hands over messages, edits, deletions and members: the API key needs the scope `ingest`, too.
    The source ends with that key, and counts against its messages of a day.
    """
    if "ingest" not in caller.key.scopes:
        raise GrantsTooMuch(
            "your key has not the scope ingest itself, which a source confers", field="scopes"
        )
    known = webhooks.PLATFORMS[source.platform]
    made = known.secret.new() if source.secret is None else None
    secret = source.secret or made
    if secret is None:
        raise InvalidInput(f"secret is missing: {source.platform} has one of its own", field="secret")
    if (problem := known.secret.problem_with(secret)) is not None:
        raise InvalidInput(f"secret: {problem}", field="secret")
    source_id = secrets.token_urlsafe(16)
    with api.database.tenant(tenant) as connection:
        chats.ensure_tenant(connection, tenant)
        row = store.add_source(connection, tenant, source_id, source, secret, caller.key.id)
    return NewSource(
        **_shown_source(row),
        path=f"/v1/events/{source.platform}/{source_id}",
        secret=made,
        verify_token=webhooks.verify_token(secret) if known.asks_for_token else None,
    )


@sources_router.get("/v1/sources", summary="List sources")
def get_sources(api: Api, tenant: Tenant) -> SourceList:
    """Return all sources, the oldest first, without their secrets."""
    with api.database.tenant(tenant) as connection:
        return SourceList(sources=[Source(**_shown_source(row)) for row in store.list_sources(connection)])


@sources_router.delete("/v1/sources/{source_id}", summary="Remove a source", responses=responses(404))
def delete_source(api: Api, tenant: Tenant, source_id: Id) -> Source:
    """Remove a source; every process refuses what is sent to its URL within 5 s."""
    with api.database.tenant(tenant) as connection:
        row = store.remove_source(connection, source_id)
    if row is None:
        raise NotFound(f"there is no source {source_id}: see `backscroll sources list`")
    return Source(**_shown_source(row))


def _shown_source(row: Row[Any]) -> dict[str, Any]:
    return {name: value for name, value in row._mapping.items() if name in Source.model_fields}
