"""All jobs, and from the queue what could not be accepted, as one list."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from ops import connection
from ops.console import rendering
from schemas.errors import InvalidInput, NotFound, QueueUnavailable
from schemas.kinds import ARRIVAL, KINDS, PAYLOAD
from schemas.settings import Settings

if TYPE_CHECKING:
    from celery import Celery

    from pipeline.jobs.dead_letters import Changed, Filter, Item
    from pipeline.store.database import Database

_LONG_AGO = datetime.min.replace(tzinfo=UTC)


class JobBacklog:
    """The jobs of one tenant, or of all tenants if there is a maintenance role and `tenant` is None.

    `default_tenant`: the tenant of a payload that names none.
    """

    def __init__(
        self, settings: Settings, database: Database, *, tenant: str | None, default_tenant: str
    ) -> None:
        everybody = tenant is None and settings.maintenance_database_url is not None
        self._scope = None if everybody else settings.tenant
        self._settings = settings
        self._database = database
        self._default_tenant = default_tenant

    @cached_property
    def _queue(self) -> Celery:
        if self._settings.redis_url is None:
            raise QueueUnavailable("BACKSCROLL_REDIS_URL is not set")
        return connection.open_queue(self._settings)

    def close(self) -> None:
        """Close the connection to Redis, if there is one."""
        if "_queue" in self.__dict__:
            self._queue.close()

    def listing(self, wanted: Filter, limit: int | None = None) -> tuple[list[Item], int]:
        """List the jobs selected, the longest in their state first, and count them without the limit.

        Without Redis there are no payloads, and it says so; raises `QueueUnavailable` if payloads are asked for.
        """
        from pipeline.jobs import dead_letters

        items, total = dead_letters.listing(self._database, self._scope, wanted, limit)
        letters = self._payloads(wanted)
        both = sorted([*items, *letters], key=lambda item: item.since or _LONG_AGO)
        return both[:limit], total + len(letters)

    def _payloads(self, wanted: Filter) -> Sequence[Item]:

        if wanted.kind not in {None, PAYLOAD} or wanted.state not in {None, "dead"}:
            return []
        from workers import letters

        try:
            return letters.listing(self._queue, self._scope, self._default_tenant, wanted)
        except QueueUnavailable as error:
            if wanted.kind == PAYLOAD:
                raise
            rendering.err().print(
                f"{error}. Payloads that could not be accepted are left out.", markup=False, style="yellow"
            )
            return []

    def find(self, kind: str, key: str) -> Item:
        """Find one job. Raises `NotFound`, and `InvalidInput` if several tenants have it."""
        from pipeline.jobs.dead_letters import Filter

        items, _ = self.listing(Filter(kind=kind, key=key))
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

    def chat_of(self, item: Item) -> str | None:
        """Find the chat that a job is about; None if it is about no chat, or about what is gone."""
        from pipeline.jobs import dead_letters

        return dead_letters.chat_of(self._database, item)

    def text_of(self, item: Item) -> str | None:
        """Read a payload as JSON; None for other jobs."""

        if item.kind != PAYLOAD:
            return None
        from workers import letters

        return letters.read(self._queue, item.key)

    def replay(self, items: Sequence[Item]) -> Changed:
        """Make jobs due again, and wake the workers."""
        from pipeline.jobs import dead_letters

        work, payloads = _parted(items)
        changed = dead_letters.replay(self._database, work)
        kinds = {"ingest" if item.kind == ARRIVAL else item.kind for item in changed.items}
        connection.wake(self._settings, *sorted(kinds & set(KINDS)))
        if not payloads:
            return changed
        from workers import letters

        return _with(changed, payloads, letters.replay(self._queue, {item.key for item in payloads}))

    def drop(self, items: Sequence[Item], *, payloads_too: bool) -> Changed:
        """Drop jobs for good; payloads, whose messages are stored nowhere else, only with `payloads_too`."""
        from pipeline.jobs import dead_letters

        work, payloads = _parted(items)
        changed = dead_letters.drop(self._database, work)
        if not payloads or not payloads_too:
            return _with(changed, payloads, set())
        from workers import letters

        return _with(changed, payloads, letters.drop(self._queue, {item.key for item in payloads}))


@contextmanager
def opened_backlog(data_dir: Path | None, tenant: str | None) -> Iterator[JobBacklog]:
    """Open the backlog of a deployment for a block. Raises as `ops.connection` does."""
    with connection.opened(data_dir, tenant) as (settings, database):
        # not settings.tenant, the command line's: workers put payloads that name no tenant here
        default = connection.configured(data_dir).tenant
        backlog = JobBacklog(settings, database, tenant=tenant, default_tenant=default)
        try:
            yield backlog
        finally:
            backlog.close()


def _parted(items: Sequence[Item]) -> tuple[list[Item], list[Item]]:
    """Separate jobs from payloads."""

    payloads = [item for item in items if item.kind == PAYLOAD]
    return [item for item in items if item.kind != PAYLOAD], payloads


def _with(changed: Changed, payloads: Sequence[Item], done: set[str]) -> Changed:
    from pipeline.jobs.dead_letters import Changed

    return Changed(
        items=changed.items + [item for item in payloads if item.key in done],
        left=changed.left + [item for item in payloads if item.key not in done],
    )
