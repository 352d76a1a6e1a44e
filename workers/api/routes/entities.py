"""`/v1/entities` and `/v1/chats/{chat_id}/topics`: who and what memories name, and what a chat was about over time."""

from typing import Annotated

from fastapi import APIRouter, Query

from pipeline.memories import entities
from pipeline.operations import topics
from schemas.memory.entities import EntityFilter, EntityList, EntityPlace, NamedEntities
from schemas.memory.topics import ChatTopics, TopicFilter
from schemas.messages import Id
from workers.api.api_route import ApiRoute
from workers.api.errors import responses
from workers.api.state import Api, Tenant

router = APIRouter(tags=["overview"], route_class=ApiRoute)


@router.get("/v1/entities", summary="List entities", responses=responses(404))
def get_entities(api: Api, tenant: Tenant, wanted: Annotated[EntityFilter, Query()]) -> EntityList:
    """Return people, places, organizations and things that learned memories name, those of most memories first.

    They come from the facts that a language model gives; without one the list is empty. With `chat_id` only what may
    be shown in that chat.
    """
    return entities.listing(api.database, tenant, wanted)


@router.get("/v1/entities/{name:path}", summary="Show an entity", responses=responses(404))
def get_entity(
    api: Api,
    tenant: Tenant,
    name: Id,
    place: Annotated[EntityPlace, Query()],
) -> NamedEntities:
    """Return the entities of a name, in any case, or of a person's id: their memories, and how they are related.

    Two people may share a name. With `chat_id` only what may be shown in that chat.
    """
    return entities.show(api.database, tenant, name, place)


@router.get(
    "/v1/chats/{chat_id}/topics",
    summary="Show what a chat was about over time",
    tags=["chats"],
    responses=responses(404),
)
def get_topics(api: Api, tenant: Tenant, chat_id: Id, wanted: Annotated[TopicFilter, Query()]) -> ChatTopics:
    """Return the topics of a chat's summaries `by` week or month, with counts and times, the latest period first."""
    return topics.of_chat(api.database, tenant, chat_id, wanted)
