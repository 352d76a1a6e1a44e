"""Entities: people, places, organizations and things that sessions speak of, and what they are mentioned with."""

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
    mentions: int
    """Messages that mention it."""
    memories: int
    """Learned memories that name it."""
    sessions: int
    first_at: datetime
    last_at: datetime
    chats: list[str]
    """The chats that it comes from."""


class EntityList(Frozen):
    """Entities, the most mentioned first."""

    entities: list[ListedEntity]


class EntityLink(Frozen):
    """A message or a memory that names an entity."""

    chat_id: str
    session_id: int
    at: datetime
    message_id: int | None
    """Null: a memory."""
    memory_id: str | None
    preview: str
    """The beginning of its text; empty: it was pruned."""


class RelatedEntity(Frozen):
    """An entity that is mentioned together with another."""

    name: str
    kind: EntityKind
    weight: float
    """How much is said of both together; learned facts count more than sentences."""
    first_at: datetime
    last_at: datetime
    chats: list[str]


class Entity(ListedEntity):
    """An entity with its names, links and relations."""

    aliases: list[str]
    links: list[EntityLink]
    """The latest ones."""
    related: list[RelatedEntity]
    """The closest first."""


class NamedEntities(Frozen):
    """The entities of a name: two people may share one."""

    entities: list[Entity]
