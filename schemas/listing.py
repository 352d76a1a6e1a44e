"""What is listed over HTTP: chats, sessions and the query log, a page at a time."""

from datetime import datetime
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from schemas.limits import Closed
from schemas.messages import MAX_ID_CHARS, Id

SomeId = Annotated[Id, Field(min_length=1, max_length=MAX_ID_CHARS)]
Limit = Annotated[int, Field(ge=1, le=1000)]


class ChatFilter(Closed):
    """Which chats are listed: the parameters of `GET /v1/chats`."""

    # the last of the page before
    after: SomeId | None = None
    limit: Limit = 100


class SessionFilter(Closed):
    """Which sessions are listed: the parameters of `GET /v1/sessions`."""

    # of this chat alone
    chat_id: SomeId | None = None
    status: Literal["open", "closed", "summarized", "skipped", "failed"] | None = None
    # the last of the page before
    after: Annotated[int, Field(ge=1, lt=2**63)] | None = None
    limit: Limit = 100


class QueryFilter(Closed):
    """Which contexts of the query log are listed: the parameters of `GET /v1/queries`."""

    # asked in this chat alone
    chat_id: SomeId | None = None
    # the last of the page before
    after: SomeId | None = None
    limit: Limit = 100


class ListedChat(BaseModel):
    """A chat and how much there is of it."""

    model_config = ConfigDict(frozen=True)

    chat_id: str
    platform: str
    kind: str
    title: str
    time_zone: str
    language: str
    # off: its messages are kept, and nothing is made of them
    memory: bool
    # that have their place in sessions
    message_count: int
    sessions: int
    summarized: int
    # none: there is no session yet
    first_at: datetime | None
    last_at: datetime | None


class ListedSession(BaseModel):
    """A session and what it was about."""

    model_config = ConfigDict(frozen=True)

    id: int
    chat_id: str
    session_key: str
    started_at: datetime
    ended_at: datetime
    message_count: int
    participants: list[str]
    status: str
    topic_tags: list[str]
    # none: it is not summarized, or not yet
    summary_text: str | None
    summary_model: str | None
