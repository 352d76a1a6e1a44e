"""Pending jobs and dead letters as one list."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from ops import connection
from schemas.errors import InvalidInput, NotFound, QueueUnavailable
from schemas.kinds import ARRIVAL, KINDS, PAYLOAD
from schemas.settings import Settings

if TYPE_CHECKING:
    from celery import Celery

    from pipeline.jobs.dead_letters import ChangedJobs, JobFilter, ListedJob
    from pipeline.store.database import Database


class JobBacklog:
    """The jobs of one tenant, or of all tenants if there is a maintenance role and `tenant` is None."""

    def __init__(self, settings: Settings, database: Database, *, tenant: str | None) -> None:
        everybody = tenant is None and settings.maintenance_database_url is not None
        self._scope = None if everybody else settings.tenant
        self._settings = settings
        self._database = database

    @cached_property
    def _queue(self) -> Celery:
        if self._settings.redis_url is None:
            raise QueueUnavailable("BACKSCROLL_REDIS_URL is not set")
        return connection.open_queue(self._settings)

    def close(self) -> None:
        """Close the connection to Redis, if there is one."""
        if "_queue" in self.__dict__:
            self._queue.close()

    def listing(self, wanted: JobFilter, limit: int | None = None) -> tuple[list[ListedJob], int]:
        """List the jobs selected, the longest in their state first, and count them without the limit."""
        from pipeline.jobs import dead_letters

        return dead_letters.listing(self._database, self._scope, wanted, limit)

    def find(self, kind: str, key: str) -> ListedJob:
        """Find one job. Raises `NotFound`, and `InvalidInput` if several tenants have it."""
        from pipeline.jobs.dead_letters import JobFilter

        items, _ = self.listing(JobFilter(kind=kind, key=key))
        if not items:
            raise NotFound(
                f"no job {kind} {key} is pending or dead: see `backscroll jobs list` (and its --state)"
            )
        if len(items) > 1:
            tenants = ", ".join(item.tenant_id for item in items[:5])
            raise InvalidInput(
                f"{len(items)} tenants have a job {kind} {key}, say whose: --tenant ({tenants})",
                field="tenant",
            )
        return items[0]

    def chat_of(self, item: ListedJob) -> str | None:
        """Find the chat that a job is about; None if it is about no chat, or about what is gone."""
        from pipeline.jobs import dead_letters

        return dead_letters.chat_of(self._database, item)

    def text_of(self, item: ListedJob) -> str | None:
        """Read a payload as JSON for people; None for other jobs."""
        from pipeline.jobs import dead_letters

        stored = dead_letters.payload_of(self._database, item)
        if stored is None:
            return None
        # JSON may hold half of a surrogate pair, which no terminal takes
        return json.dumps(json.loads(stored), ensure_ascii=False, indent=2).encode(errors="replace").decode()

    def replay(self, items: Sequence[ListedJob]) -> ChangedJobs:
        """Make jobs due again, and wake the workers. Raises `QueueUnavailable` if a payload cannot be queued."""
        from pipeline.jobs import dead_letters
        from workers import queues

        changed = dead_letters.replay(
            self._database, items, lambda *payload: queues.enqueue_payload(self._queue, *payload)
        )
        kinds = {"ingest" if item.kind == ARRIVAL else item.kind for item in changed.items}
        connection.wake(self._settings, *sorted(kinds & set(KINDS)))
        return changed

    def drop(self, items: Sequence[ListedJob], *, payloads_too: bool) -> ChangedJobs:
        """Drop jobs for good; payloads, whose messages are stored nowhere else, only with `payloads_too`."""
        from pipeline.jobs import dead_letters

        kept = [item for item in items if item.kind == PAYLOAD and not payloads_too]
        changed = dead_letters.drop(self._database, [item for item in items if item not in kept])
        return dead_letters.ChangedJobs(items=changed.items, left=changed.left + kept)


@contextmanager
def opened_backlog(data_dir: Path | None, tenant: str | None) -> Iterator[JobBacklog]:
    """Open the backlog of a deployment for a block. Raises as `ops.connection` does."""
    with connection.opened(data_dir, tenant) as (settings, database):
        backlog = JobBacklog(settings, database, tenant=tenant)
        try:
            yield backlog
        finally:
            backlog.close()
