"""The query log: contexts that were served, and the answers that bots report."""

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import Field

from schemas.limits import Frozen, at_most
from schemas.messages import NOT_BLANK, Content

MAX_USED = 1000

Source = Literal["recent", "message", "session", "memory", "document"]
"""What tokens of a context come from, except those of the question and the guardrails."""


class AnswerIn(Frozen):
    """A bot's answer to a context: the body of `POST /v1/contexts/{context_id}/answer`."""

    v: Literal[1] = 1
    answer: Annotated[Content, NOT_BLANK]
    used: (
        Annotated[list[Annotated[str, Field(max_length=100)]], at_most(MAX_USED), Field(max_length=MAX_USED)]
        | None
    ) = None
    """Items that the answer is based on, as `kind:id` of each. Null: not known."""
    remember: bool | None = None
    """Whether question and answer become a memory of the asker. Null: as BACKSCROLL_REMEMBER_ANSWERS says."""


class AnswerReceipt(Frozen):
    """The result of reporting an answer."""

    outcome: Literal["stored", "known", "kept_out"]
    """`known`: an earlier answer is kept; `kept_out`: the asker, or an item shown, was forgotten or is not
    to be remembered."""
    memory_id: str | None = None
    """The memory made of question and answer."""


class LoggedContext(Frozen):
    """A row of the query log."""

    context_id: str
    chat_id: str
    user_id: str | None
    agent_id: str | None
    session_key: str | None
    profile: str
    asked_at: datetime
    query: str | None
    """Null: redacted."""
    shown: dict[str, str]
    """The block of each item, by `kind:id`."""
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
