"""What a chat was about over time: the topics of its sessions' summaries, by week or month."""

from datetime import date, datetime
from typing import Annotated, Literal

from pydantic import Field

from schemas.base import Closed, Frozen

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
