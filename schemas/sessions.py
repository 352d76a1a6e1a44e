"""Sessions as values: where a message stands in time, and the ranges that sessions are."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, NamedTuple

SessionStatus = Literal["open", "closed", "summarized", "skipped", "failed", "merged"]


class Stamp(NamedTuple):
    """A message's place in its chat; tuples compare in the order that holds everywhere."""

    sent_at: datetime
    position: int
    # compared by code point, as Postgres does with COLLATE "C"
    external_id: str


@dataclass(frozen=True, kw_only=True)
class Range:
    """A session as the pure function sees it: consecutive messages of one chat and session key."""

    # the first message's time
    started_at: datetime
    # the last message's time
    ended_at: datetime
    # how many messages lie inside
    count: int


@dataclass(frozen=True, kw_only=True)
class Session:
    """A stored session."""

    # identity within the tenant
    id: int
    chat_id: str
    # the thread that an agent named, or empty
    session_key: str
    started_at: datetime
    ended_at: datetime
    message_count: int
    # display names, in the order of their first message
    participants: tuple[str, ...]
    status: SessionStatus
    # raised by every change of its messages
    revision: int


@dataclass(frozen=True, kw_only=True)
class Message:
    """A stored message."""

    # identity within the tenant
    id: int
    chat_id: str
    external_id: str
    sender_id: str
    sender_name: str
    role: str
    content: str
    sent_at: datetime
    position: int
    session_key: str
    agent_id: str | None
    metadata: Mapping[str, Any]
    # the external id of the message that this one answers, and the thread of the chat that it stands in
    reply_to: str | None = None
    thread: str | None = None

    @property
    def speaker(self) -> str:
        """The name to show: the sender's, or its id where no name is known."""
        return self.sender_name or self.sender_id
