"""Entities: people, places, organizations and things that facts of a language model name, and how they are related."""

from datetime import datetime
from typing import Annotated, Literal

from pydantic import Field

from schemas.base import Closed, Frozen
from schemas.messages import Id

EntityKind = Literal["person", "place", "organization", "thing", "unknown"]


class EntityPlace(Closed):
    """Where entities are shown: the parameters of `GET /v1/entities/{name}`."""

    chat_id: Id | None = None
    """Only what may be shown in this chat. Null: everything."""
    user_id: Id | None = None
    """Who asks there."""


class EntityFilter(EntityPlace):
    """Which entities to list: the parameters of `GET /v1/entities`."""

    kind: EntityKind | None = None
    limit: Annotated[int, Field(ge=1, le=1000)] = 100


class ListedEntity(Frozen):
    """An entity with its counts."""

    name: str
    """As it is mostly written."""
    kind: EntityKind
    user_id: str | None
    """The sender's id of a person who has written. Null: nobody who has."""
    description: str
    """The most important memory that is about it, else one that names it."""
    memories: int
    """Learned memories that name it."""
    first_at: datetime
    last_at: datetime
    chats: list[str]
    """The chats that it comes from."""


class EntityList(Frozen):
    """Entities, those that most memories name first."""

    entities: list[ListedEntity]


class EntityLink(Frozen):
    """A memory that names an entity."""

    memory_id: str
    chat_id: str | None
    at: datetime
    preview: str
    """The beginning of its text."""


class RelatedEntity(Frozen):
    """An entity that memories relate to another."""

    name: str
    kind: EntityKind
    relation: str
    """What it is to the other one, in English, such as `partner`; what facts have as their attribute."""
    inverse: bool
    """It is the other way round: the other one is this one's partner."""
    memories: int
    """Memories that say so."""
    first_at: datetime
    last_at: datetime
    chats: list[str]


class Entity(ListedEntity):
    """An entity with its names, links and relations."""

    aliases: list[str]
    links: list[EntityLink]
    """The latest ones."""
    related: list[RelatedEntity]
    """What most memories say first."""


class NamedEntities(Frozen):
    """The entities of a name: two people may share one."""

    entities: list[Entity]
