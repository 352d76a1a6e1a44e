"""Durable statements: what is remembered in a scope, knowing where it was learned."""

from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from schemas.limits import Closed
from schemas.messages import MAX_ID_CHARS, Content, Id, Metadata, SaidAt, Time

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
OptionalId = Annotated[Id, Field(min_length=1, max_length=MAX_ID_CHARS)] | None
MANUAL_IMPORTANCE = 5.0
"""Of what is written by hand; what is found by itself has 1, or as it is judged."""
PAGE = 100
MAX_PAGE = 500


def _said(value: str) -> str:
    if not value.strip():
        raise ValueError("is empty")
    return value


class MemoryIn(Closed):
    """A statement to remember."""

    scope: MemoryScope
    type: MemoryType = "fact"
    content: Annotated[Content, AfterValidator(_said)]
    # the chat it was learned in: it is shown only where everyone was there too
    learned_in: OptionalId = None
    session_id: int | None = None
    user_id: OptionalId = None
    agent_id: OptionalId = None
    # 0 to 10: 1 by default, 5 for what is written by hand, facts as they are judged
    importance: Annotated[float, Field(ge=0, le=10)] = 1.0
    # when it was said or learned; none: now. What was forgotten since does not come back by it
    said_at: SaidAt | None = None
    expires_at: Time | None = None
    source: Annotated[str, Field(max_length=MAX_ID_CHARS)] = ""
    document_id: OptionalId = None
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
    """A statement that somebody writes by hand: the body of `POST /v1/memories`."""

    v: Literal[1] = 1
    type: MemoryType = "manual"

    @model_validator(mode="before")
    @classmethod
    def _by_hand(cls, value: Any) -> Any:
        if isinstance(value, dict) and value.get("type", "manual") == "manual":
            return {"importance": MANUAL_IMPORTANCE, **value}
        return value


class MemoryFilter(Closed):
    """Which memories are listed: the parameters of `GET /v1/memories`."""

    scope: MemoryScope | None = None
    # of this person, by any of their ids
    user_id: OptionalId = None
    agent_id: OptionalId = None
    # those alone that may be shown in this chat
    chat_id: OptionalId = None
    # the last of the page before
    after: UUID | None = None
    limit: Annotated[int, Field(ge=1, le=MAX_PAGE)] = PAGE


class Memory(BaseModel):
    """A memory as it is stored."""

    model_config = ConfigDict(frozen=True)

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
