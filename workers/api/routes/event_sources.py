"""`/v1/sources`: the URLs to which platforms send events themselves."""

import secrets
from typing import Any

from fastapi import APIRouter
from sqlalchemy import Row

from pipeline.people.api_keys import GrantsTooMuch
from pipeline.platforms import proofs
from pipeline.store.chats import chats
from pipeline.store.people import event_sources as store
from schemas.bots.event_sources import NewSource, Source, SourceIn, SourceList
from schemas.errors import InvalidInput, NotFound
from schemas.messages import Id
from workers.api.api_route import ApiRoute
from workers.api.bodies import Body
from workers.api.errors import responses
from workers.api.state import Api, ByCaller, Tenant

router = APIRouter(tags=["sources"], route_class=ApiRoute)


@router.post("/v1/sources", status_code=201, summary="Add a source")
def post_source(api: Api, tenant: Tenant, caller: ByCaller, source: Body[SourceIn]) -> NewSource:
    """Make a URL for a platform's own hook; its secret is shown this once, if it is made here.

    Whoever has the secret hands over messages, edits, deletions and members: the API key needs the scope `ingest`, too.
    The source ends with that key, and counts against its messages of a day.
    """
    if "ingest" not in caller.key.scopes:
        raise GrantsTooMuch(
            "your key has not the scope ingest itself, which a source confers", field="scopes"
        )
    made = proofs.new_secret(source.platform) if source.secret is None else None
    secret = source.secret or made
    if secret is None:
        raise InvalidInput(f"secret is missing: {source.platform} has one of its own", field="secret")
    if (problem := proofs.problem_with(source.platform, secret)) is not None:
        raise InvalidInput(f"secret: {problem}", field="secret")
    source_id = secrets.token_urlsafe(16)
    with api.database.tenant(tenant) as connection:
        chats.ensure_tenant(connection, tenant)
        row = store.add(connection, tenant, source_id, source, secret, caller.key.id)
    return NewSource(
        **_shown(row),
        path=f"/v1/events/{source.platform}/{source_id}",
        secret=made,
        verify_token=proofs.verify_token(secret) if source.platform == "whatsapp" else None,
    )


@router.get("/v1/sources", summary="List sources")
def get_sources(api: Api, tenant: Tenant) -> SourceList:
    """Return all sources, the oldest first, without their secrets."""
    with api.database.tenant(tenant) as connection:
        return SourceList(sources=[Source(**_shown(row)) for row in store.listing(connection)])


@router.delete("/v1/sources/{source_id}", summary="Remove a source", responses=responses(404))
def delete_source(api: Api, tenant: Tenant, source_id: Id) -> Source:
    """Remove a source; every process refuses what is sent to its URL within 5 s."""
    with api.database.tenant(tenant) as connection:
        row = store.remove(connection, source_id)
    if row is None:
        raise NotFound(f"there is no source {source_id}: see `backscroll sources list`")
    return Source(**_shown(row))


def _shown(row: Row[Any]) -> dict[str, Any]:
    return {name: value for name, value in row._mapping.items() if name in Source.model_fields}
