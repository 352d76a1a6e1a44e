"""What a backfill is asked to do, and how far it has come."""

from datetime import datetime, timedelta
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from schemas.limits import Closed
from schemas.messages import MAX_ID_CHARS, Time

BackfillKind = Literal["embed", "summarize", "sessionize"]
BackfillState = Literal["running", "paused", "cancelled", "completed", "failed"]


class BackfillRequest(Closed):
    """Do this kind of work again over what is stored."""

    kind: BackfillKind
    # of one chat alone
    chat_id: Annotated[str, Field(min_length=1, max_length=MAX_ID_CHARS)] | None = None
    # of messages sent, or sessions ended, from then on and before then
    since: Time | None = None
    until: Time | None = None
    # only what has no vector, or no summary of the current version
    missing_only: bool = True
    # stop after so many rows
    limit: Annotated[int, Field(ge=1)] | None = None
    # rows in one transaction
    batch_size: Annotated[int, Field(ge=1, le=10_000)] = 100
    # rows a second at most; none: as fast as the workers are
    rate_per_second: Annotated[float, Field(gt=0, le=1_000_000)] | None = None

    @model_validator(mode="after")
    def _some_time(self) -> Self:
        if self.since is not None and self.until is not None and self.since >= self.until:
            raise ValueError("since must be before until")
        return self


class Backfill(BaseModel):
    """A backfill as stored."""

    model_config = ConfigDict(frozen=True)

    id: int
    request: BackfillRequest
    state: BackfillState
    # the last key seen: progress only
    cursor: dict[str, Any] | None
    # rows to look at, rows looked at, and rows that were owed something
    total: int
    seen: int
    raised: int
    error: str | None
    created_at: datetime
    updated_at: datetime
    finished_at: datetime | None

    def eta(self) -> timedelta | None:
        """How long the rest takes at the pace so far; None before there is one, or after the end."""
        if self.state != "running" or not self.seen:
            return None
        elapsed = self.updated_at - self.created_at
        return elapsed * (max(0, self.total - self.seen) / self.seen)
