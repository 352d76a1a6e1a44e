"""The backlog limit: refuse messages while the workers are too far behind."""

import threading
import time

from pipeline.store import messages
from pipeline.store.database import Database
from workers.api.errors import HttpError

COUNT_SECONDS = 1.0
"""How old the count may be: the limit is a brake, not a promise, and counting costs a query."""
RETRY_SECONDS = 10


class BacklogLimit:
    """Counts a tenant's messages that are accepted and not yet placed, up to `limit`."""

    def __init__(self, database: Database, tenant_id: str, limit: int) -> None:
        self._database = database
        self._tenant_id = tenant_id
        self._limit = limit
        self._counting = threading.Lock()
        self._counted_at = -COUNT_SECONDS
        self._waiting = 0

    def require_room(self) -> None:
        """Raise `HttpError` 503 while more messages wait than the limit. Raises `DatabaseUnavailable`."""
        if self._count() > self._limit:
            raise HttpError(
                503,
                "overloaded",
                f"More than {self._limit} messages (BACKSCROLL_BACKLOG_MAX_MESSAGES) wait to be placed in "
                f"their sessions. Nothing was stored: send the same again in {RETRY_SECONDS} s, and check "
                "that the worker of the queue ingest runs.",
                headers={"Retry-After": str(RETRY_SECONDS)},
            )

    def is_counted(self) -> bool:
        """Tell whether `require_room` answers at once."""
        return time.monotonic() - self._counted_at < COUNT_SECONDS

    def _count(self) -> int:
        # One thread counts, the others use the last count: with Postgres away they must not queue here.
        if not self.is_counted() and self._counting.acquire(blocking=False):
            try:
                with self._database.tenant(self._tenant_id) as connection:
                    self._waiting = messages.waiting(connection, self._tenant_id, self._limit + 1)
                self._counted_at = time.monotonic()
            finally:
                self._counting.release()
        return self._waiting
