"""Durable statements: what is remembered in a scope, knowing where it was learned."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from schemas.messages import MAX_CONTENT_BYTES, MAX_ID_CHARS, Time, clean_text

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
OptionalId = Annotated[str, Field(min_length=1, max_length=MAX_ID_CHARS)] | None


class MemoryIn(BaseModel):
    """A statement to remember."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    scope: MemoryScope
    type: MemoryType = "fact"
    content: Annotated[str, Field(min_length=1)]
    # the chat it was learned in: it is shown only where everyone was there too
    learned_in: OptionalId = None
    session_id: int | None = None
    user_id: OptionalId = None
    agent_id: OptionalId = None
    # 0 to 10: 1 by default, 5 for what is written by hand, facts as they are judged
    importance: Annotated[float, Field(ge=0, le=10)] = 1.0
    # when it was said or learned; none: now. What was forgotten since does not come back by it
    said_at: Time | None = None
    expires_at: Time | None = None
    source: Annotated[str, Field(max_length=MAX_ID_CHARS)] = ""
    document_id: OptionalId = None
    chunk_index: Annotated[int, Field(ge=0)] | None = None
    metadata: dict[str, Any] = Field(default_factory=dict)

    @field_validator("content")
    @classmethod
    def _storable(cls, value: str) -> str:
        value = clean_text(value)
        if (size := len(value.encode())) > MAX_CONTENT_BYTES:
            raise ValueError(f"is {size} bytes long; at most {MAX_CONTENT_BYTES} are taken")
        return value

    @model_validator(mode="after")
    def _owned(self) -> "MemoryIn":
        owner = {"session": self.session_id, "user": self.user_id, "agent": self.agent_id}
        if self.scope in owner and owner[self.scope] is None:
            raise ValueError(f"a memory of the scope {self.scope} needs {self.scope}_id")
        if self.scope in {"agent", "organization"} and self.user_id is not None:
            raise ValueError(f"a memory of the scope {self.scope} has no user_id")
        return self
