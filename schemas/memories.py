"""Memories: durable statements in a scope, with the chat where they were learned."""

from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import Field, model_validator

from schemas.base import Closed, Frozen
from schemas.messages import MAX_ID_CHARS, NOT_BLANK, Content, Id, Metadata, SaidAt, Time

MemoryScope = Literal["session", "user", "agent", "organization"]
MemoryType = Literal[
    "fact",
    "preference",
    "summary",
    "qa_turn",
    "learning",
    "state",
    "persona",
    "scratchpad",
    "document",
    "manual",
]
VisibilityPolicy = Literal["strict", "tenant", "chat"]
"""Who sees what was learned in another chat: those who were all there, everybody, or nobody."""
MANUAL_IMPORTANCE = 5.0
"""The importance of memories written by hand."""
PAGE = 100
MAX_PAGE = 500


class MemoryIn(Closed):
    """A statement to remember."""

    scope: MemoryScope
    type: MemoryType = "fact"
    content: Annotated[Content, NOT_BLANK]
    learned_in: Id | None = None
    """The chat where it was learned: it is shown only in chats whose members were all in that one."""
    session_id: int | None = None
    user_id: Id | None = None
    agent_id: Id | None = None
    importance: Annotated[float, Field(ge=0, le=10)] = 1.0
    """0 to 10; 5 by default for the type `manual`, 1 for others."""
    said_at: SaidAt | None = None
    """When it was said or learned. Null: now. Nothing said before it was forgotten is stored again."""
    expires_at: Time | None = None
    source: Annotated[str, Field(max_length=MAX_ID_CHARS)] = ""
    document_id: Id | None = None
    chunk_index: Annotated[int, Field(ge=0)] | None = None
    metadata: Metadata = Field(default_factory=dict)

    @model_validator(mode="after")
    def _owned(self) -> "MemoryIn":
        owner = {"session": self.session_id, "user": self.user_id, "agent": self.agent_id}
        if self.scope in owner and owner[self.scope] is None:
            raise ValueError(f"a memory of the scope {self.scope} needs {self.scope}_id")
        if self.scope in {"agent", "organization"} and self.user_id is not None:
            raise ValueError(f"a memory of the scope {self.scope} has no user_id")
        return self


class MemoryPayload(MemoryIn):
    """A statement written by hand: the body of `POST /v1/memories`."""

    v: Literal[1] = 1
    type: MemoryType = "manual"

    @model_validator(mode="before")
    @classmethod
    def _by_hand(cls, value: Any) -> Any:
        if isinstance(value, dict) and value.get("type", "manual") == "manual":
            return {"importance": MANUAL_IMPORTANCE, **value}
        return value


class MemoryFilter(Closed):
    """A page of memories: the parameters of `GET /v1/memories`."""

    scope: MemoryScope | None = None
    user_id: Id | None = None
    """Only memories of this user, by any of their ids."""
    agent_id: Id | None = None
    chat_id: Id | None = None
    """Only memories that may be shown in this chat."""
    after: UUID | None = None
    """The last `id` of the previous page."""
    limit: Annotated[int, Field(ge=1, le=MAX_PAGE)] = PAGE


class Memory(Frozen):
    """A stored memory."""

    id: UUID
    scope: MemoryScope
    type: MemoryType
    content: str
    user_id: str | None
    agent_id: str | None
    session_id: int | None
    learned_in: str | None
    importance: float
    access_count: int
    last_accessed_at: datetime | None
    expires_at: datetime | None
    source: str
    document_id: str | None
    chunk_index: int | None
    metadata: dict[str, Any]
    created_at: datetime
