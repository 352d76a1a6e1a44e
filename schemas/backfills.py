"""Backfills: the request and the progress."""

from datetime import datetime, timedelta
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from schemas.base import Closed, Frozen
from schemas.messages import Id, Time

BackfillKind = Literal["embed", "summarize", "sessionize"]
BackfillState = Literal["running", "paused", "cancelled", "completed", "failed"]


class BackfillRequest(Closed):
    """A kind of work to repeat over stored data."""

    kind: BackfillKind
    chat_id: Id | None = None
    """Only this chat."""
    since: Time | None = None
    """Only messages sent, or sessions ended, at this time or later."""
    until: Time | None = None
    """Only messages sent, or sessions ended, before this time."""
    missing_only: bool = True
    """Only messages without a vector, or sessions without a current summary."""
    limit: Annotated[int, Field(ge=1)] | None = None
    """The number of rows after which to stop."""
    batch_size: Annotated[int, Field(ge=1, le=10_000)] = 100
    """Rows per transaction."""
    rate_per_second: Annotated[float, Field(gt=0, le=1_000_000)] | None = None
    """The maximum of rows per second. None: as fast as the workers are."""

    @model_validator(mode="after")
    def _some_time(self) -> Self:
        if self.since is not None and self.until is not None and self.since >= self.until:
            raise ValueError("since must be before until")
        return self


class Backfill(Frozen):
    """A backfill as stored."""

    id: int
    request: BackfillRequest
    state: BackfillState
    cursor: dict[str, Any] | None
    """The last key read, for progress only."""
    total: int
    """Rows to read."""
    seen: int
    """Rows read."""
    raised: int
    """Rows for which a job was enqueued."""
    error: str | None
    created_at: datetime
    updated_at: datetime
    finished_at: datetime | None

    def eta(self) -> timedelta | None:
        """Estimate the time left from the rate so far; None before the first row and after the end."""
        if self.state != "running" or not self.seen:
            return None
        elapsed = self.updated_at - self.created_at
        return elapsed * (max(0, self.total - self.seen) / self.seen)
