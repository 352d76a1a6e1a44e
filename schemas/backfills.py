"""Backfills: the request and the progress."""

from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from schemas.base import Closed, Frozen
from schemas.messages import Id, Time

BackfillKind = Literal["embed", "summarize", "rollup", "extract", "sessionize", "answers", "secrets"]
FOR_GOOD: frozenset[BackfillKind] = frozenset({"secrets"})
"""Those that cannot be undone: they are started where a dry run is shown and confirmed first."""
BackfillState = Literal["running", "paused", "cancelled", "completed", "failed"]

STEADY_SECONDS, STEADY_SHARE = 20, 0.02
"""How long, and for what share of the rows, a rate is measured before the time left is estimated from it."""


class BackfillRequest(Closed):
    """A kind of work to repeat over stored data."""

    kind: BackfillKind
    chat_id: Id | None = None
    """Only this chat."""
    since: Time | None = None
    """Only messages sent, sessions ended or questions asked at this time or later."""
    until: Time | None = None
    """Only messages sent, sessions ended or questions asked before this time."""
    missing_only: bool = True
    """Only messages without a vector, sessions without a current summary, weeks without one, or answers that were not
    remembered."""
    limit: Annotated[int, Field(ge=1)] | None = None
    """The number of rows after which to stop."""
    batch_size: Annotated[int, Field(ge=1, le=10_000)] = 100
    """Rows per transaction."""
    rate_per_second: Annotated[float, Field(gt=0, le=1_000_000)] | None = None
    """The maximum of rows done per second. None: as fast as the workers are."""

    def does_as(self, other: Self) -> bool:
        """Tell whether another does the same, at whatever pace."""
        pace = {"batch_size": 1, "rate_per_second": None}
        return self.model_copy(update=pace) == other.model_copy(update=pace)

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
    started_by: str = ""
    """`cli`, or the label of a key."""
    pending: int = 0
    """Jobs that the workers have still to do for it."""
    was_running: bool = False
    """Whether it ran, or was paused, when it was asked for once more."""

    def eta(self, now: datetime | None = None) -> timedelta | None:
        """Estimate the time left from the rate since the first row was done; None until it holds, and after the end."""
        began, before = (self.cursor or {}).get("began", (0, 0))
        elapsed = (now or datetime.now(UTC)).timestamp() - began
        done = self.seen - self.pending - before
        is_steady = elapsed >= STEADY_SECONDS and done > STEADY_SHARE * self.total
        if self.state != "running" or not began or not is_steady:
            return None
        return timedelta(seconds=elapsed * max(0, self.total - before - done) / done)

    def progress(self) -> str:
        """Describe how far it is, such as `300 of 1,000 rows checked, 20 to be done, 0:05:00 left`."""
        eta = self.eta()
        left = ", estimating the time left" if self.state == "running" else ""
        left = left if eta is None else f", {timedelta(seconds=round(eta.total_seconds()))} left"
        pending = f", {self.pending:,} to be done" if self.pending else ""
        return f"{self.seen:,} of {self.total:,} rows checked{pending}{left}"
