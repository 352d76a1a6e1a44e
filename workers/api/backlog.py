"""The backlog limit: refuse messages while the workers are too far behind."""

import threading
import time
from collections import defaultdict
from dataclasses import dataclass, field

from pipeline.store.connections.database import Database
from pipeline.store.messages import messages
from workers.api.errors import HttpError

COUNT_SECONDS = 1.0
"""Highest age of the count: the limit is a brake, not a promise, and counting costs a query."""
RETRY_SECONDS = 10


class BacklogLimit:
    """Counts each tenant's messages that are accepted but not yet placed, up to `limit`."""

    def __init__(self, database: Database, limit: int) -> None:
        self._database = database
        self._limit = limit
        self._tenants: defaultdict[str, _Waiting] = defaultdict(_Waiting)

    def require_room(self, tenant_id: str) -> None:
        """Raise `HttpError` 503 while more messages wait than the limit. Raises `DatabaseUnavailable`."""
        if self._count(tenant_id) > self._limit:
            raise HttpError(
                503,
                "overloaded",
                f"More than {self._limit} messages (BACKSCROLL_BACKLOG_MAX_MESSAGES) wait to be placed in "
                f"their sessions. Nothing was stored: send the same again in {RETRY_SECONDS} s, and check "
                "that the worker of the queue ingest runs.",
                headers={"Retry-After": str(RETRY_SECONDS)},
            )

    def is_counted(self, tenant_id: str) -> bool:
        """Tell whether the count is fresh, so that `require_room` does not wait."""
        return time.monotonic() - self._tenants[tenant_id].counted_at < COUNT_SECONDS

    def _count(self, tenant_id: str) -> int:
        waiting = self._tenants[tenant_id]
        # One thread counts, the others use the last count: while Postgres is down they must not queue here.
        if not self.is_counted(tenant_id) and waiting.counting.acquire(blocking=False):
            try:
                with self._database.tenant(tenant_id) as connection:
                    waiting.count = messages.waiting(connection, tenant_id, self._limit + 1)
                waiting.counted_at = time.monotonic()
            finally:
                waiting.counting.release()
        return waiting.count


@dataclass(slots=True)
class _Waiting:
    """The last count of a tenant."""

    counting: threading.Lock = field(default_factory=threading.Lock)
    counted_at: float = -COUNT_SECONDS
    count: int = 0
