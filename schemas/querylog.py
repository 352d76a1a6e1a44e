"""What was asked and shown, as it is recorded, and the answer that a bot reports."""

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from schemas.limits import at_most
from schemas.messages import Content

MAX_USED = 1000

# What a context's tokens come from; the question and the guardrails are of none.
Source = Literal["recent", "message", "session", "memory", "document"]


class AnswerIn(BaseModel):
    """What a bot answered to a context: the body of `POST /v1/contexts/{context_id}/answer`."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    v: Literal[1] = 1
    answer: Content
    # the items that the answer rests on, as `kind:id` with an item's `kind` and `id`; none: not known
    used: (
        Annotated[list[Annotated[str, Field(max_length=100)]], at_most(MAX_USED), Field(max_length=MAX_USED)]
        | None
    ) = None
    # whether question and answer become a memory of whoever asked; none: as BACKSCROLL_REMEMBER_ANSWERS says
    remember: bool | None = None

    @field_validator("answer")
    @classmethod
    def _said(cls, value: str) -> str:
        if not value.strip():
            raise ValueError("is empty")
        return value


class AnswerOutcome(BaseModel):
    """What became of a reported answer."""

    # `known`: there was one already, and the first one stands; `kept_out`: something that the context showed, or
    # whoever asked, was forgotten meanwhile, or is not remembered
    outcome: Literal["stored", "known", "kept_out"]
    # the memory of question and answer
    memory_id: str | None = None


class LoggedContext(BaseModel):
    """A row of the query log."""

    model_config = ConfigDict(frozen=True)

    context_id: str
    chat_id: str
    user_id: str | None
    agent_id: str | None
    session_key: str | None
    profile: str
    asked_at: datetime
    # none: redacted
    query: str | None
    # the block that each item stood in, by `kind:id`
    shown: dict[str, str]
    tokens: dict[str, int]
    chars: dict[str, int]
    used_tokens: int
    budget: int
    latency_ms: float
    degraded: list[str]
    answer: str | None
    used: list[str] | None
    answered_at: datetime | None
    memory_id: Any
    redacted_at: datetime | None
