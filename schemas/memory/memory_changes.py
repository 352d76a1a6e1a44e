"""Changes of memories: edits by hand, wider scopes, corrections, and what became of each."""

from typing import Annotated, Literal, Self
from uuid import UUID

from pydantic import ConfigDict, Field, model_validator

from schemas.base import Closed, Frozen, depending_on
from schemas.memory.memories import MemoryScope, require_ids
from schemas.messages import NOT_BLANK, Content, Id, Metadata, SaidAt, Time

SCOPES: tuple[MemoryScope, ...] = ("session", "user", "agent", "organization")
"""From the narrowest to the widest."""
_OWNER = {"user": ["user_id"], "agent": ["agent_id"]}
_REFUSED = {"user": ["agent_id"], "agent": ["user_id"], "organization": ["user_id", "agent_id"]}


class MemoryEdit(Closed):
    """Changes of a memory, what is left out stays: the body of `PATCH /v1/memories/{memory_id}`."""

    v: Literal[1] = 1
    content: Annotated[Content, NOT_BLANK] | None = None
    """New words. What is learned later does not change them."""
    importance: Annotated[float, Field(ge=0, le=10)] | None = None
    expires_at: Time | None = None
    """Null: never."""
    metadata: Metadata | None = None
    """Keys to set; a key that is null is removed."""

    @model_validator(mode="after")
    def _some(self) -> Self:
        fields = self.model_fields_set - {"v"}
        if not fields:
            raise ValueError("give at least one of content, importance, expires_at and metadata")
        for name in fields - {"expires_at"}:
            if getattr(self, name) is None:
                raise ValueError(f"{name} cannot be null: leave it out to keep it")
        return self


class MemoryPromotion(Closed):
    """A wider scope for a memory: the body of `POST /v1/memories/{memory_id}/promote`."""

    model_config = ConfigDict(json_schema_extra=depending_on("scope", needed=_OWNER, refused=_REFUSED))

    v: Literal[1] = 1
    scope: Literal["user", "agent", "organization"]
    user_id: Id | None = None
    agent_id: Id | None = None

    @model_validator(mode="after")
    def _owned(self) -> Self:
        require_ids(self, self.scope, _OWNER, _REFUSED)
        return self


class MemoryCorrection(Closed):
    """What is wrong about a memory: the body of `POST /v1/memories/{memory_id}/correct`."""

    v: Literal[1] = 1
    content: Annotated[Content, NOT_BLANK] | None = None
    """The right statement, which supersedes the memory. Null: it is wrong, and nothing takes its place."""
    said_at: SaidAt | None = None
    """When that was said, after the memory itself. Null: now."""
    chat_id: Id | None = None
    """The chat where the right statement was said: it is shown, and supersedes, where what was said there may be
    shown. Null: wherever the memory is shown."""

    @model_validator(mode="after")
    def _somewhere(self) -> Self:
        if self.content is None and self.chat_id is not None:
            raise ValueError(
                "chat_id is where content was said: without content a memory is wrong everywhere"
            )
        return self


class MemoryReceipt(Frozen):
    """The result of writing, changing or deleting a memory."""

    outcome: Literal["new", "known", "kept_out", "edited", "promoted", "corrected", "retracted", "deleted"]
    """`known`: the same memory exists; `kept_out`: memory is off, or its subject was forgotten; `corrected`: the
    memory `id` has taken its place; `retracted`: it is history, and nothing has."""
    id: UUID | None
    """Null: it was not stored."""
    request_id: str
