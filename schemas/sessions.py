"""Sessions as values: where a message stands in time, and the ranges that sessions are."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, NamedTuple

SessionStatus = Literal["open", "closed", "summarized", "skipped", "failed", "merged"]


THREAD = " thread:"
"""What the session key of a thread's messages begins with: a client's keys are stripped and never do."""


def key_of(session_key: str, thread: str | None) -> str:
    """The session key that a message is stored with: what an agent named goes first, then its thread.

    >>> key_of("", None), key_of("", "7"), key_of("order-12", "7")
    ('', ' thread:7', 'order-12')
    """
    return session_key or (f"{THREAD}{thread}" if thread else "")


def is_named(session_key: str) -> bool:
    """Whether an agent named it: its sessions have a time-to-live of their own, and end when they are closed."""
    return session_key != "" and not session_key.startswith(THREAD)


class Stamp(NamedTuple):
    """A message's place in its chat; tuples compare in the order that holds everywhere."""

    sent_at: datetime
    position: int
    # the platform's id where it is a number, else -1
    number: int
    # as they were stored
    id: int


def number_of(external_id: str) -> int:
    """What an id of the platform counts as among those of one instant; -1: it is no number.

    Of a message whose chat was given another id, that id stands before a slash.

    >>> number_of("99") < number_of("100"), number_of("telegram:-7/99"), number_of("a7")
    (True, 99, -1)
    """
    own = external_id.rpartition("/")[2]
    return int(own) if own.isascii() and own.isdigit() else -1


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
    # what an agent named, or a thread (`key_of`), or empty
    session_key: str
    started_at: datetime
    ended_at: datetime
    message_count: int
    # display names, in the order of their first message
    participants: tuple[str, ...]
    status: SessionStatus
    # raised by every change of its messages
    revision: int


class Answered(NamedTuple):
    """The message that another one answers."""

    id: int
    speaker: str
    # how it begins
    said: str


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
    # what `reply_to` names, where it was looked up and is there
    answered: Answered | None = None

    @property
    def stamp(self) -> Stamp:
        """Its place in its chat."""
        return Stamp(self.sent_at, self.position, number_of(self.external_id), self.id)

    @property
    def speaker(self) -> str:
        """The name to show: the sender's, or its id where no name is known."""
        return self.sender_name or self.sender_id
