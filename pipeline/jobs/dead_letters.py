"""List, replay and drop pending and dead jobs, as an operator may.

Quarantined arrivals (kind `arrival`) and refused payloads (kind `payload`) are dead letters, too. Accepted messages are
never given up: only jobs that derive data can be dropped, and payloads, which were not accepted.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from itertools import groupby

from sqlalchemy import Connection

from pipeline.store.connections.database import Database
from pipeline.store.connections.transactions import batched
from pipeline.store.jobs import backfill_rows, job_admin, jobs
from pipeline.store.jobs.jobs import NewJob
from schemas import kinds
from schemas.kinds import ARRIVAL, BACKFILL, INGEST, KINDS, PAYLOAD, SUMMARIZE

DROPPABLE = kinds.DROPPABLE | {PAYLOAD}
DROPPED = "dropped by an operator"
ROWS_AT_ONCE = 1000
"""Rows changed in one transaction."""


@dataclass(frozen=True, kw_only=True)
class ListedJob:
    """A job, or another dead letter."""

    tenant_id: str
    kind: str
    key: str
    state: str
    # failed and running attempts; None: not counted, as for an arrival or a payload
    attempts: int | None
    # when it became dead, or else pending
    since: datetime
    pending_since: datetime
    # when it may be tried, or when the lease of its worker ends
    due_at: datetime | None
    error: str | None
    # the request that asked for it
    trace_id: str | None


@dataclass(frozen=True, kw_only=True)
class JobFilter:
    """Which jobs to list; a field that is None does not filter."""

    state: str | None = None
    kind: str | None = None
    key: str | None = None
    # a substring of its error, ignoring case
    error: str | None = None
    # in its state for longer than this
    older_than_seconds: float | None = None


@dataclass(frozen=True, kw_only=True)
class ChangedJobs:
    """The outcome of a replay or a drop."""

    items: list[ListedJob]
    # unchanged: running now, changed meanwhile, or not to be given up
    left: list[ListedJob]

    @property
    def kinds(self) -> list[str]:
        """The kinds of jobs whose workers are to be woken."""
        return sorted({"ingest" if item.kind == ARRIVAL else item.kind for item in self.items} & set(KINDS))


def listing(
    database: Database, tenant_id: str | None, filters: JobFilter, limit: int | None = None
) -> tuple[list[ListedJob], int]:
    """List the jobs of one tenant that match, oldest first, and count them without the limit.

    None lists the jobs of all tenants, which needs the maintenance role.
    """
    with database.maintenance() if tenant_id is None else database.tenant(tenant_id) as connection:
        rows = job_admin.listing(connection, **asdict(filters), limit=limit)
    listed = [ListedJob(**{n: v for n, v in row._mapping.items() if n != "total"}) for row in rows]
    return listed, rows[0].total if rows else 0


def chat_of(database: Database, item: ListedJob) -> str | None:
    """Return a job's chat; None if it has none, or its subject is gone."""
    with database.tenant(item.tenant_id) as connection:
        return job_admin.chat_of(connection, item.kind, item.key)


def payload_of(database: Database, item: ListedJob) -> str | None:
    """Return a refused payload as JSON; None for another kind of job, or if it is gone."""
    if item.kind != PAYLOAD:
        return None
    with database.tenant(item.tenant_id) as connection:
        return job_admin.read_payload(connection, item.key)


def replay(
    database: Database, items: Sequence[ListedJob], enqueue: Callable[[str, str | None], None]
) -> ChangedJobs:
    """Make jobs due at once with all their attempts again, dead or not, and release arrivals from quarantine.

    Only this revives a chat whose `ingest` was given up. `enqueue(payload, trace id)` queues a refused payload
    unchanged; it is deleted once queued, and stays if `enqueue` raises.
    """
    changed: set[tuple[str, str, str]] = set()
    for tenant_id, kind, keys in _batches(items):
        if kind == PAYLOAD:
            done = _queue_again(database, tenant_id, keys, enqueue)
        else:
            with database.tenant(tenant_id) as connection:
                done = (
                    _release(connection, tenant_id, keys)
                    if kind == ARRIVAL
                    else job_admin.replay(connection, kind, keys)
                )
        changed.update((tenant_id, kind, key) for key in done)
    return _changed(items, changed)


def _queue_again(
    database: Database, tenant_id: str, keys: Sequence[str], enqueue: Callable[[str, str | None], None]
) -> list[str]:
    """Queue refused payloads, one per transaction as they may be large; return the keys found."""
    done = []
    for key in keys:
        with database.tenant(tenant_id) as connection:
            # of what could not be read nothing was kept
            if job_admin.read_payload(connection, key) != "null" and (
                taken := job_admin.take_payload(connection, key)
            ):
                enqueue(*taken)
                done.append(key)
    return done


def drop(database: Database, items: Sequence[ListedJob]) -> ChangedJobs:
    """Give jobs up for good: their vectors and summaries are missing until a change or a backfill enqueues them.

    Sessions that waited for a summary are `failed`, with the reason; backfills are cancelled. Jobs that are not
    `DROPPABLE` stay.
    """
    changed: set[tuple[str, str, str]] = set()
    for tenant_id, kind, keys in _batches(item for item in items if item.kind in DROPPABLE):
        with database.tenant(tenant_id) as connection:
            # lock order: the subject first, the jobs last
            if kind == SUMMARIZE.name:
                session_ids = [int(key.removeprefix("session:")) for key in keys]
                job_admin.fail_sessions(connection, session_ids, DROPPED)
            for key in keys if kind == BACKFILL.name else ():
                backfill_rows.set_state(connection, int(key), "cancelled", error=DROPPED)
            gone = (
                [key for key in keys if job_admin.take_payload(connection, key)]
                if kind == PAYLOAD
                else job_admin.give_up(connection, kind, keys, DROPPED)
            )
            changed.update((tenant_id, kind, key) for key in gone)
    return _changed(items, changed)


def _release(connection: Connection, tenant_id: str, keys: Sequence[str]) -> list[str]:
    """Release arrivals from quarantine, enqueue placing in their chats, and return the released keys."""
    released = job_admin.release_arrivals(connection, [int(key.removeprefix("message:")) for key in keys])
    chats = sorted({chat_id for _, chat_id in released})
    jobs.enqueue_all(connection, tenant_id, (NewJob(kind=INGEST.name, key=chat, lane=chat) for chat in chats))
    return [f"message:{message_id}" for message_id, _ in released]


def _batches(items: Iterable[ListedJob]) -> Iterator[tuple[str, str, list[str]]]:
    """Yield `(tenant, kind, keys)` of bounded size, in lock order."""
    ordered = sorted(items, key=lambda item: (item.tenant_id, item.kind, item.key))
    for (tenant_id, kind), group in groupby(ordered, key=lambda item: (item.tenant_id, item.kind)):
        for batch in batched(group, ROWS_AT_ONCE):
            yield tenant_id, kind, [item.key for item in batch]


def _changed(items: Sequence[ListedJob], changed: set[tuple[str, str, str]]) -> ChangedJobs:
    done = {item: (item.tenant_id, item.kind, item.key) in changed for item in items}
    return ChangedJobs(
        items=[item for item in items if done[item]], left=[item for item in items if not done[item]]
    )
