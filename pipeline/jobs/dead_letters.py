"""What an operator may do with jobs: list pending and dead ones, replay them, drop them.

Arrivals in quarantine are dead letters too, of the kind `arrival`, and refused payloads, of the kind `payload`. What
was accepted is never given up: messages are placed or forgotten, so only work that makes something of them can be
dropped, and payloads, which were not.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby, islice

from sqlalchemy import Connection

from pipeline.store import backfills, job_admin, jobs, quarantine
from pipeline.store.database import Database
from pipeline.store.jobs import NewJob
from schemas import kinds
from schemas.kinds import ARRIVAL, BACKFILL, INGEST, PAYLOAD, SUMMARIZE

DROPPABLE = kinds.DROPPABLE | {PAYLOAD}
DROPPED = "dropped by an operator"
# Rows changed in one transaction.
AT_ONCE = 1000


@dataclass(frozen=True, kw_only=True)
class Item:
    """A piece of work that is owed or was given up."""

    tenant_id: str
    kind: str
    key: str
    state: str
    # tries that failed or are under way; none: they are not counted, as for an arrival or a payload
    attempts: int | None
    # since when it has been dead, or else owed
    since: datetime
    pending_since: datetime
    # when it may be tried, or when the lease of whoever tries it ends
    due_at: datetime | None
    error: str | None
    # the request that asked for it
    trace_id: str | None


@dataclass(frozen=True, kw_only=True)
class Filter:
    """Which work; what is None does not matter."""

    state: str | None = None
    kind: str | None = None
    key: str | None = None
    # a part of its error's text, in any case
    error: str | None = None
    # in its state for longer than this
    older_than_seconds: float | None = None


@dataclass(frozen=True, kw_only=True)
class Changed:
    """What became of the work that was to change."""

    items: list[Item]
    # left as they were: being done right now, changed meanwhile, or not to be given up
    left: list[Item]


def listing(
    database: Database, tenant_id: str | None, wanted: Filter, limit: int | None = None
) -> tuple[list[Item], int]:
    """List the jobs that match, oldest first, and count them without the limit.

    Of one tenant; with None of all, for which the maintenance role is needed.
    """
    with database.maintenance() if tenant_id is None else database.tenant(tenant_id) as connection:
        rows = job_admin.listing(
            connection,
            state=wanted.state,
            kind=wanted.kind,
            key=wanted.key,
            error=wanted.error,
            older_than_seconds=wanted.older_than_seconds,
            limit=limit,
        )
    items = []
    for row in rows:
        fields = dict(row._mapping)
        del fields["total"]
        items.append(Item(**fields))
    return items, rows[0].total if rows else 0


def chat_of(database: Database, item: Item) -> str | None:
    """Return the chat that a job is about; None if it is about none, or its subject is gone."""
    with database.tenant(item.tenant_id) as connection:
        return job_admin.chat_of(connection, item.kind, item.key)


def payload_of(database: Database, item: Item) -> str | None:
    """What a refused payload says, as JSON; None: it is none, or is gone."""
    if item.kind != PAYLOAD:
        return None
    with database.tenant(item.tenant_id) as connection:
        return quarantine.read_payload(connection, item.key)


def replay(database: Database, items: Sequence[Item], enqueue: Callable[[str, str | None], None]) -> Changed:
    """Make work due at once with all its attempts, dead or not, and let arrivals out of quarantine.

    This alone revives a chat whose `ingest` was given up. `enqueue(payload, trace id)` queues a refused payload as it
    came; it is deleted once it is queued, and stays if `enqueue` raises.
    """
    changed: set[tuple[str, str, str]] = set()
    for tenant_id, kind, keys in _batches(items):
        for key in keys if kind == PAYLOAD else ():
            # one in a transaction: it may be large
            with database.tenant(tenant_id) as connection:
                if taken := quarantine.take_payload(connection, key):
                    enqueue(*taken)
                    changed.add((tenant_id, kind, key))
        if kind == PAYLOAD:
            continue
        with database.tenant(tenant_id) as connection:
            done = (
                _release(connection, tenant_id, keys)
                if kind == ARRIVAL
                else job_admin.replay(connection, kind, keys)
            )
        changed.update((tenant_id, kind, key) for key in done)
    return _changed(items, changed)


def drop(database: Database, items: Sequence[Item]) -> Changed:
    """Give jobs up for good: vectors and summaries stay away until a change or a backfill asks for them.

    Sessions that waited for a summary are `failed`, with the reason; backfills are cancelled. What is not
    `DROPPABLE` is left.
    """
    changed: set[tuple[str, str, str]] = set()
    for tenant_id, kind, keys in _batches(item for item in items if item.kind in DROPPABLE):
        with database.tenant(tenant_id) as connection:
            # the order of locks: what it is about first, the work last
            if kind == SUMMARIZE.name:
                job_admin.fail_sessions(
                    connection, [int(key.removeprefix("session:")) for key in keys], DROPPED
                )
            for key in keys if kind == BACKFILL.name else ():
                backfills.set_state(connection, int(key), "cancelled", error=DROPPED)
            gone = (
                [key for key in keys if quarantine.take_payload(connection, key)]
                if kind == PAYLOAD
                else job_admin.give_up(connection, kind, keys, DROPPED)
            )
            changed.update((tenant_id, kind, key) for key in gone)
    return _changed(items, changed)


def _release(connection: Connection, tenant_id: str, keys: Sequence[str]) -> list[str]:
    """Let arrivals out of quarantine and enqueue their chats' placing; returns the keys of those in it."""
    released = job_admin.release_arrivals(connection, [int(key.removeprefix("message:")) for key in keys])
    chats = sorted({chat_id for _, chat_id in released})
    jobs.enqueue_all(connection, tenant_id, (NewJob(kind=INGEST.name, key=chat, lane=chat) for chat in chats))
    return [f"message:{message_id}" for message_id, _ in released]


def _batches(items: Iterable[Item]) -> Iterator[tuple[str, str, list[str]]]:
    """Yield `(tenant, kind, keys)` of bounded size, in the order in which rows are locked."""
    ordered = sorted(items, key=lambda item: (item.tenant_id, item.kind, item.key))
    for (tenant_id, kind), group in groupby(ordered, key=lambda item: (item.tenant_id, item.kind)):
        while keys := [item.key for item in islice(group, AT_ONCE)]:
            yield tenant_id, kind, keys


def _changed(items: Sequence[Item], changed: set[tuple[str, str, str]]) -> Changed:
    marked = [((item.tenant_id, item.kind, item.key) in changed, item) for item in items]
    return Changed(
        items=[item for yes, item in marked if yes], left=[item for yes, item in marked if not yes]
    )
