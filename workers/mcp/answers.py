"""What tools answer: of the routes' answers what a model needs, and the same as text that says who, what and when.

A message is one line of its text, so that nobody's words can pass for those of another.
"""

from datetime import UTC, datetime
from typing import Any

from pydantic import Field, model_validator

from schemas.base import Frozen


class Answer(Frozen):
    """The answer of a tool."""

    def as_text(self) -> str:
        """Return the answer as a model reads it."""
        raise NotImplementedError


class Item(Frozen):
    """A line of a context."""

    kind: str
    id: str
    at: datetime | None = None
    speaker: str | None = None
    text: str


class Recalled(Answer):
    """A context."""

    text: str = Field(exclude=True)
    items: list[Item]
    degraded: list[str] = Field(exclude=True)

    @model_validator(mode="before")
    @classmethod
    def _of_blocks(cls, context: dict[str, Any]) -> dict[str, Any]:
        return context | {"items": [item for block in context["blocks"] for item in block["items"]]}

    def as_text(self) -> str:
        """Return the context as bots get it, and the ids of its memories."""
        memories = [f"Memory {item.id}: {_line(item.text)}" for item in self.items if item.kind == "memory"]
        return "\n".join([self.text, *self.degraded, *memories])


class Message(Frozen):
    """A message."""

    id: str
    session_id: int | None = None
    at: datetime | None = None
    speaker: str | None = None
    text: str

    def __str__(self) -> str:
        session = f"session {self.session_id}, " if self.session_id is not None else ""
        return f"{_day(self.at)} {_line(self.speaker or '')}: {_line(self.text)} [{session}message {self.id}]"


class Session(Frozen):
    """A session."""

    session_id: int
    started_at: datetime
    ended_at: datetime = Field(exclude=True)
    summary: str | None = None

    def __str__(self) -> str:
        told = _line(self.summary or "not summarized")
        return f"{_span(self.started_at, self.ended_at)}: {told} [session {self.session_id}]"


class Found(Answer):
    """The result of a search."""

    hits: list[Message]
    sessions: list[Session]
    searched_back_to: datetime | None = Field(None, exclude=True)
    degraded: list[str] = Field(exclude=True)

    def as_text(self) -> str:
        """Return a line for each message or session."""
        lines = [str(each) for each in (*self.hits, *self.sessions)] or ["Nothing was found."]
        if self.searched_back_to is not None:
            lines.append(
                f"Older messages were not searched: go on with until={self.searched_back_to.isoformat()}"
            )
        return "\n".join([*lines, *self.degraded])


class Page(Answer):
    """Messages of a session."""

    session_id: int
    started_at: datetime = Field(exclude=True)
    ended_at: datetime = Field(exclude=True)
    summary: str | None = None
    messages: list[Message]
    remaining: int

    def as_text(self) -> str:
        """Return the messages in order of time."""
        head = f"Session {self.session_id}, {_span(self.started_at, self.ended_at)}"
        told = [f"Summary: {_line(self.summary)}"] if self.summary else []
        return "\n".join([head, *told, *map(str, self.messages), f"{self.remaining} more messages"])


class Known(Frozen):
    """A memory of a person."""

    id: str
    content: str
    since: datetime
    chat_id: str | None = None
    earlier: bool = False

    @model_validator(mode="before")
    @classmethod
    def _of_place(cls, memory: dict[str, Any]) -> dict[str, Any]:
        return memory | {"chat_id": (memory["learned_in"] or {}).get("chat_id")}

    def __str__(self) -> str:
        place = f", {self.chat_id}" if self.chat_id else ""
        return f"- {_line(self.content)} [since {_day(self.since)}{place}, memory {self.id}]"


class Person(Answer):
    """What is known of a person."""

    user_id: str
    memories: list[Known]

    @model_validator(mode="before")
    @classmethod
    def _of_both(cls, page: dict[str, Any]) -> dict[str, Any]:
        earlier = [memory | {"earlier": True} for memory in page["earlier"]]
        return page | {"memories": page["current"] + earlier}

    def as_text(self) -> str:
        """Return what holds, then what was believed earlier."""
        held = [str(memory) for memory in self.memories if not memory.earlier]
        past = [str(memory) for memory in self.memories if memory.earlier]
        head = f"Known of {self.user_id}:" if held else f"Nothing is known of {self.user_id} now."
        return "\n".join([head, *held, *(["No longer true, or wrong:"] if past else []), *past])


class Chat(Frozen):
    """A chat."""

    chat_id: str
    title: str
    kind: str
    message_count: int | None = None
    last_at: datetime | None = None

    def __str__(self) -> str:
        count = f", {self.message_count} messages" if self.message_count is not None else ""
        last = f", the last {_day(self.last_at)}" if self.last_at else ""
        return f"{self.chat_id}: {_line(self.title)} ({self.kind}{count}{last})"


class Chats(Answer):
    """A page of chats."""

    chats: list[Chat]
    total: int

    def as_text(self) -> str:
        """Return a line for each chat."""
        return "\n".join([*map(str, self.chats), f"{self.total} chats in all"])


class Changed(Answer):
    """What became of a memory."""

    outcome: str
    id: str | None = None

    def as_text(self) -> str:
        """Say what became of it."""
        return OUTCOMES.get(self.outcome, self.outcome) + (f" (memory {self.id})" if self.id else "")


OUTCOMES = {
    "new": "Remembered",
    "known": "It was remembered already",
    "kept_out": "Not stored: memory is off, or its subject was forgotten",
    "corrected": "Corrected: this memory has taken the place of the wrong one",
    "retracted": "Retracted: it stays as history and is no longer shown as known",
    "deleted": "Deleted",
}


def _line(text: str) -> str:
    return " ".join(text.split())


def _day(at: datetime | None) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M} UTC" if at else "unknown time"


def _span(first: datetime, last: datetime) -> str:
    return f"{_day(first)} – {_day(last)}"
