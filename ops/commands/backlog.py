"""All that is owed or was given up: the ledger's work and, from the queue, what could not be accepted, as one list."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from ops import connection
from ops.commands import rendering
from ops.commands.hints import opened_hints
from ops.commands.opening import opened
from schemas.errors import InvalidInput, NotFound, QueueUnavailable
from schemas.kinds import ARRIVAL, KINDS, PAYLOAD
from schemas.settings import Settings

if TYPE_CHECKING:
    from celery import Celery

    from pipeline.jobs.dead_letters import Changed, Filter, Item
    from pipeline.store.database import Database

_LONG_AGO = datetime.min.replace(tzinfo=UTC)


class Backlog:
    """The work of one tenant, or of all of them where there is a maintenance role and `tenant` is None.

    `default_tenant`: whose a payload is that names none.
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
        """Give the connection to Redis back, if there is one."""
        if "_queue" in self.__dict__:
            self._queue.close()

    def listing(self, wanted: Filter, limit: int | None = None) -> tuple[list[Item], int]:
        """The work that fits, the longest there first, and how much there is without the limit.

        Without Redis that of the ledger, and it says so; raises `QueueUnavailable` where payloads are asked for.
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
                f"{error}. What could not be accepted is left out.", markup=False, style="yellow"
            )
            return []

    def find(self, kind: str, key: str) -> Item:
        """One piece of work. Raises `NotFound`, and `InvalidInput` when several tenants have it."""
        from pipeline.jobs.dead_letters import Filter

        items, _ = self.listing(Filter(kind=kind, key=key))
        if not items:
            raise NotFound(
                f"no work {kind} {key} is owed or given up: see `backscroll work list` (and its --state)"
            )
        if len(items) > 1:
            tenants = ", ".join(item.tenant_id for item in items[:5])
            raise InvalidInput(
                f"{len(items)} tenants have work {kind} {key}, say whose: --tenant ({tenants})",
                field="tenant",
            )
        return items[0]

    def chat_of(self, item: Item) -> str | None:
        """The chat that it is about; None: of no chat, or what it is about is gone."""
        from pipeline.jobs import dead_letters

        return dead_letters.chat_of(self._database, item)

    def text_of(self, item: Item) -> str | None:
        """What a payload says, as JSON; None: it is none."""

        if item.kind != PAYLOAD:
            return None
        from workers import letters

        return letters.read(self._queue, item.key)

    def replay(self, items: Sequence[Item]) -> Changed:
        """Have work done again, and tell the workers."""
        from pipeline.jobs import dead_letters

        work, payloads = _parted(items)
        changed = dead_letters.replay(self._database, work)
        kinds = {"ingest" if item.kind == ARRIVAL else item.kind for item in changed.items}
        with opened_hints(self._settings, rendering.err()) as hints:
            for each in sorted(kinds & set(KINDS)):
                hints.send(each)
        if not payloads:
            return changed
        from workers import letters

        return _with(changed, payloads, letters.replay(self._queue, {item.key for item in payloads}))

    def drop(self, items: Sequence[Item], *, payloads_too: bool) -> Changed:
        """Give work up for good; payloads, whose messages are stored nowhere else, only where it is said."""
        from pipeline.jobs import dead_letters

        work, payloads = _parted(items)
        changed = dead_letters.drop(self._database, work)
        if not payloads or not payloads_too:
            return _with(changed, payloads, set())
        from workers import letters

        return _with(changed, payloads, letters.drop(self._queue, {item.key for item in payloads}))


@contextmanager
def opened_backlog(data_dir: Path | None, tenant: str | None) -> Iterator[Backlog]:
    """The backlog of a deployment, closed at the end. Raises as `ops.connection` does."""
    with opened(data_dir, tenant) as (settings, database):
        # settings.tenant is what the command line says, which is not where workers put what names no tenant
        default = connection.configured(data_dir).tenant
        backlog = Backlog(settings, database, tenant=tenant, default_tenant=default)
        try:
            yield backlog
        finally:
            backlog.close()


def _parted(items: Sequence[Item]) -> tuple[list[Item], list[Item]]:
    """The ledger's work, and payloads."""

    payloads = [item for item in items if item.kind == PAYLOAD]
    return [item for item in items if item.kind != PAYLOAD], payloads


def _with(changed: Changed, payloads: Sequence[Item], done: set[str]) -> Changed:
    from pipeline.jobs.dead_letters import Changed

    return Changed(
        items=changed.items + [item for item in payloads if item.key in done],
        left=changed.left + [item for item in payloads if item.key not in done],
    )
