"""Pages of people: their memories, with time and source, and superseded ones."""

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from pipeline.memories import pages
from pipeline.store.operations import inspection
from schemas.messages import Id, IdOrEmpty
from schemas.people.user_pages import UserFilter
from workers.api.inspector.chats import ROWS
from workers.api.inspector.pages import PageRoute, page
from workers.api.state import Api, Tenant

router = APIRouter(prefix="/inspect/people", route_class=PageRoute, include_in_schema=False)


@router.get("")
def get_people(request: Request, api: Api, tenant: Tenant, after: IdOrEmpty = "") -> Response:
    """List the people who have memories."""
    with api.database.tenant(tenant) as connection:
        rows = inspection.people(connection, after, ROWS)
    return page(request, "people", rows=rows, full=len(rows) == ROWS)


@router.get("/{user_id}")
def get_person(
    request: Request, api: Api, tenant: Tenant, user_id: Id, wanted: Annotated[UserFilter, Query()]
) -> Response:
    """Show a person: current memories, and earlier ones."""
    person = pages.user_page(api.database, tenant, user_id, wanted)
    known = [*person.current, *person.earlier]
    full = len(known) == wanted.limit
    return page(request, "person", person=person, following=known[-1].id if full else None)
