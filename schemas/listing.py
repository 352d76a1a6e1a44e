"""Lists over HTTP, a page at a time: chats, sessions, topics and the query log."""

from datetime import date, datetime
from typing import Annotated, Any, Literal

from pydantic import Field

from schemas.base import Closed, Frozen
from schemas.context import LoggedContext
from schemas.messages import Id, IdOrEmpty, Role, RowId, Time

Limit = Annotated[int, Field(ge=1, le=1000)]


class ChatFilter(Closed):
    """A page of chats: the parameters of `GET /v1/chats`."""

    after: Id | None = None
    """The last `chat_id` of the previous page."""
    order: Literal["id", "latest"] = "id"
    """`latest`: the latest active first."""
    limit: Limit = 100


class SessionFilter(Closed):
    """A page of sessions: the parameters of `GET /v1/sessions`."""

    chat_id: Id | None = None
    """Only sessions of this chat."""
    status: Literal["open", "closed", "summarized", "skipped", "failed"] | None = None
    after: RowId | None = None
    """The last `id` of the previous page."""
    limit: Limit = 100


class MessagesFilter(Closed):
    """Which of a chat's messages: the parameters of `GET /v1/chats/{chat_id}/messages`."""

    session_key: IdOrEmpty | None = None
    """Only messages with this session key."""
    until: Time | None = None
    """Only messages sent before this time."""
    limit: Limit = 100


class ListedMessage(Frozen):
    """A message as it was sent."""

    external_id: str
    sender_id: str
    sender_name: str
    role: Role
    content: str
    sent_at: datetime
    agent_id: str | None
    session_key: str
    reply_to: str | None
    thread: str | None
    metadata: dict[str, Any]


class MessageList(Frozen):
    """Messages of a chat, in order of time."""

    messages: list[ListedMessage]


class QueryFilter(Closed):
    """A page of the query log: the parameters of `GET /v1/queries`."""

    chat_id: Id | None = None
    """Only contexts for this chat."""
    after: Id | None = None
    """The last `context_id` of the previous page."""
    limit: Limit = 100


class ChatSummary(Frozen):
    """A chat."""

    chat_id: str
    title: str
    kind: str
    time_zone: str
    """The time zone in which its times are shown."""
    language: str
    """The language that its words are searched in; several as in `german+english`."""
    language_by: Literal["declared", "detected"] | None = None
    """Who says so; null: nobody yet."""
    memory: bool
    """Whether memory is made of its messages and searched; they are stored in any case."""


class ListedChat(ChatSummary):
    """A chat with its counts."""

    platform: str
    message_count: int
    """Messages in sessions."""
    sessions: int
    summarized: int
    first_at: datetime | None
    """Null: there is no session yet."""
    last_at: datetime | None


class ChatList(Frozen):
    """Chats, by id."""

    chats: list[ListedChat]
    total: int
    """The number of all chats."""


class SessionSpan(Frozen):
    """The times and the size of a session."""

    id: int
    started_at: datetime
    ended_at: datetime
    message_count: int


class SessionPage(Frozen):
    """Sessions of a chat, latest first."""

    sessions: list[SessionSpan]


class ListedSession(SessionSpan):
    """A session and its summary."""

    chat_id: str
    session_key: str
    participants: list[str]
    status: str
    topic_tags: list[str]
    summary_text: str | None
    """Null: not summarized."""
    summary_model: str | None


class SessionList(Frozen):
    """Sessions, latest first."""

    sessions: list[ListedSession]


class QueryList(Frozen):
    """Contexts that were served, latest first."""

    queries: list[LoggedContext]


MAX_PERIODS = 520


class TopicFilter(Closed):
    """How topics are counted: the parameters of `GET /v1/chats/{chat_id}/topics`."""

    by: Literal["week", "month"] = "month"
    """The length of a period."""
    periods: Annotated[int, Field(ge=1, le=MAX_PERIODS)] = 12
    """Periods at most, the latest that have a topic."""
    limit: Annotated[int, Field(ge=1, le=100)] = 10
    """Topics of a period at most, the most frequent."""


class CountedTopic(Frozen):
    """A topic of a period."""

    topic: str
    sessions: int
    """Sessions of the period that are about it."""
    first_at: datetime
    """When the first of them began."""
    last_at: datetime
    """When the last of them ended."""


class TopicPeriod(Frozen):
    """A week or month with its topics."""

    begins: date
    """Its first day in the chat's time zone; a week begins on Monday."""
    topics: list[CountedTopic]
    """The most frequent first."""


class ChatTopics(Frozen):
    """The topics of a chat, the latest period first."""

    chat_id: str
    by: Literal["week", "month"]
    time_zone: str
    periods: list[TopicPeriod]
