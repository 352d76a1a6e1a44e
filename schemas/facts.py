"""Facts that a conversation states, before they become memories, and the entities that they name."""

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Literal, get_args
from uuid import UUID

from pydantic import Field

from schemas.base import Closed, Frozen
from schemas.messages import Id

FactCategory = Literal["fact", "preference", "goal", "event", "relation", "learning", "decision"]
CATEGORIES: tuple[FactCategory, ...] = get_args(FactCategory)
About = Literal["speaker", "person", "agent", "organization"]
"""Whom a fact is about: who says it, somebody whom they name, the agent, or all who talk there."""

RULES = "rules-v1"
"""The extractor without a language model, of what people ask a bot to keep."""
MAX_FACT_CHARS = 140
DENIAL = "not "
"""What the value of a statement begins with that denies the rest of it."""


def is_denial(value: str) -> bool:
    """Tell whether a value denies what a statement would say with the rest of it."""
    return value.startswith(DENIAL)


def denies_another(value: str, known: str) -> bool:
    """Tell whether a value only denies another one than what is known: who is not in Lisbon may be in Porto.

    >>> denies_another("not lisbon", "porto"), denies_another("not lisbon", "lisbon")
    (True, False)
    """
    return is_denial(value) and value != DENIAL + known


@dataclass(frozen=True, kw_only=True)
class Fact:
    """A statement that a conversation makes."""

    # a sentence that names its subject, of at most `MAX_FACT_CHARS`: `Ann is allergic to nuts.`
    content: str
    category: FactCategory
    about: About
    # the name of whom it is about, as the chat has it; empty: all who talk there
    subject: str
    # what it says something about, in English and lower case, such as `home` or `likes tea`; empty: nothing else can
    # contradict it. Of a subject, two facts with the same attribute and different values contradict each other
    attribute: str = ""
    # what it says of that, in lower case, such as `porto` or `no`
    value: str = ""
    # 0 to 1
    confidence: float
    # 1 to 10
    importance: float
    # the messages that say it, at least one, all of people
    message_ids: tuple[int, ...]
    # the first and the last moment at which it holds, where the conversation says so
    holds_from: datetime | None = None
    holds_until: datetime | None = None
    # known memories that it makes untrue
    replaces: tuple[UUID, ...] = ()


@dataclass(frozen=True, kw_only=True)
class KnownFact:
    """A stored memory that a new fact may repeat or contradict."""

    id: UUID
    content: str
    subject: str
    attribute: str
    value: str
    # when it was said first
    said_at: datetime


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
