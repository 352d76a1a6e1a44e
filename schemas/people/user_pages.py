"""A person's page: what is known of them now, what was believed earlier, and where all of it comes from."""

from datetime import datetime
from typing import Annotated
from uuid import UUID

from pydantic import Field

from schemas.base import Closed, Frozen
from schemas.memory.memories import MAX_PAGE, PAGE, MemoryType
from schemas.messages import Id
from schemas.people.users import User

MAX_MESSAGES = 20
"""Messages that are named for one memory, the latest."""


class UserFilter(Closed):
    """What of a person's page is asked for: the parameters of `GET /v1/users/{user_id}`."""

    chat_id: Id | None = None
    """Only what may be shown in this chat when the person asks there."""
    after: UUID | None = None
    """The last `id` of the previous page."""
    limit: Annotated[int, Field(ge=1, le=MAX_PAGE)] = PAGE
    """Memories at most."""


class NamedChat(Frozen):
    """A chat where something was said."""

    chat_id: str
    title: str


class NamedMessage(Frozen):
    """A message that says something."""

    chat_id: str
    external_id: str
    sender_id: str
    said_at: datetime


class Superseder(Frozen):
    """A memory that has taken the place of another one."""

    id: UUID
    content: str
    since: datetime


class KnownMemory(Frozen):
    """A memory of a person, with where it comes from and what became of it."""

    id: UUID
    type: MemoryType
    content: str
    about: str
    """The name of whom it is about; empty: it names nobody."""
    since: datetime
    """When it was said first, or else written."""
    holds_from: datetime | None
    holds_until: datetime | None
    learned_in: NamedChat | None
    """The chat where it was learned first; null: in none."""
    also_in: list[NamedChat]
    """Other chats where it was said."""
    messages: list[NamedMessage]
    """Messages that say it, the latest last; none: it was written by hand or by a bot."""
    confidence: float
    importance: float
    access_count: int
    last_accessed_at: datetime | None
    expires_at: datetime | None
    learned_by: str
    """The model or the rules that learned it; empty: written by hand or by a bot."""
    source: str
    edited_at: datetime | None
    """Since when its words are those of somebody who edited it; null: they are the first ones."""
    retracted_at: datetime | None
    """Since when it is known to be wrong; null: it is not."""
    superseded_by: list[Superseder]
    """What has taken its place, the earliest first."""


class UserPage(User):
    """A person, and what is known of them: first what holds, then what was believed earlier, each the latest first."""

    current: list[KnownMemory]
    earlier: list[KnownMemory]
