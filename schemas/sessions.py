"""Sessions, their summaries, and messages as values."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import chain
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field

from schemas.messages import FORWARDED

SessionStatus = Literal["open", "closed", "summarized", "skipped", "failed", "merged"]
SummaryLine = Annotated[str, Field(max_length=300)]
EXTRACTIVE = "extractive-v1"
"""The model of summaries that are picked from the transcript, without a language model."""
THREAD = " thread:"
"""The prefix of a thread's session key; a client's own keys are stripped and never begin so."""


def key_of(session_key: str, thread: str | None) -> str:
    """Return the session key with which a message is stored: the agent's own, else that of its thread.

    >>> key_of("", None), key_of("", "7"), key_of("order-12", "7")
    ('', ' thread:7', 'order-12')
    """
    return session_key or (f"{THREAD}{thread}" if thread else "")


def is_named(session_key: str) -> bool:
    """Return whether an agent chose the key: its sessions have their own time-to-live and may be closed explicitly."""
    return session_key != "" and not session_key.startswith(THREAD)


class Stamp(NamedTuple):
    """A message's position in its chat; tuples compare in the order of the chat, and decide between equals."""

    sent_at: datetime
    position: int
    # the platform's id if it is a number, else -1
    number: int
    # in the order in which they were stored
    id: int


def number_of(external_id: str) -> int:
    """Return the number in a platform's id, which orders messages of the same time; -1: it is no number.

    After a chat got another id, the ids of its messages begin with the former one and a slash.

    >>> number_of("99") < number_of("100"), number_of("telegram:-7/99"), number_of("a7")
    (True, 99, -1)
    """
    number = external_id.rpartition("/")[2]
    return int(number) if number.isascii() and number.isdigit() else -1


@dataclass(frozen=True, kw_only=True)
class Range:
    """A session for the pure functions: consecutive messages of one chat and session key."""

    # the first message's time
    started_at: datetime
    # the last message's time
    ended_at: datetime
    # the number of its messages
    count: int


@dataclass(frozen=True, kw_only=True)
class Session:
    """A stored session."""

    # identity within the tenant
    id: int
    chat_id: str
    # of an agent or a thread (`key_of`), or empty
    session_key: str
    started_at: datetime
    ended_at: datetime
    message_count: int
    # display names, in the order of their first messages
    participants: tuple[str, ...]
    status: SessionStatus
    # incremented by every change of its messages
    revision: int


class Summary(BaseModel):
    """A session's summary: 3–6 short factual sentences, without a model quotations, and lists of what they name."""

    model_config = ConfigDict(frozen=True)

    # nothing that the transcript does not say; a language model makes dates absolute, without one nothing is added
    summary: Annotated[str, Field(min_length=1, max_length=4000)]
    topics: Annotated[list[SummaryLine], Field(max_length=12)] = Field(default_factory=list)
    decisions: Annotated[list[SummaryLine], Field(max_length=12)] = Field(default_factory=list)
    open_questions: Annotated[list[SummaryLine], Field(max_length=12)] = Field(default_factory=list)
    action_items: Annotated[list[SummaryLine], Field(max_length=12)] = Field(default_factory=list)
    entities: Annotated[list[SummaryLine], Field(max_length=24)] = Field(default_factory=list)

    def search_text(self) -> str:
        """Return everything in it as one text, for keyword search.

        >>> Summary(summary="Ann fixed it.", topics=["boiler"]).search_text()
        'Ann fixed it.\\nboiler'
        """
        lists = (self.topics, self.decisions, self.open_questions, self.action_items, self.entities)
        return "\n".join([self.summary, *chain.from_iterable(lists)])


class RepliedTo(NamedTuple):
    """The message that another one replies to."""

    id: int
    speaker: str
    # the beginning of its text
    said: str


class Message(NamedTuple):
    """A stored message: its columns, and the message that it answers; a tuple, as hundreds are read for a question."""

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
    # the external id of the message that this one answers, and the thread of the chat
    reply_to: str | None = None
    thread: str | None = None
    # the message of `reply_to`, if it was looked up and is stored
    answered: RepliedTo | None = None

    @property
    def stamp(self) -> Stamp:
        """Its position in its chat."""
        return Stamp(self.sent_at, self.position, number_of(self.external_id), self.id)

    @property
    def speaker(self) -> str:
        """The name to show: the sender's name, else their id."""
        return self.sender_name or self.sender_id

    @property
    def forwarded_from(self) -> str | None:
        """Whose words it passes on; empty: nobody knows; None: they are the sender's own."""
        return str(self.metadata[FORWARDED] or "") if FORWARDED in self.metadata else None
