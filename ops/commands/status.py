"""`backscroll status`: what is owed and how late it is, what is stored, what happened, what was given up."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from ops import stack
from ops.commands import broker, rendering
from ops.commands.broker import Broker
from ops.commands.opening import opened
from ops.commands.rendering import JsonOption
from ops.connection import DataDirOption, TenantOption
from schemas.errors import DatabaseUnavailable, NotFound
from schemas.settings import Settings

if TYPE_CHECKING:
    from pipeline.operations.status import Counts, Status
    from pipeline.store.database import Database

app = typer.Typer(rich_markup_mode="markdown")


@app.command(
    epilog="**Examples:** backscroll status · backscroll status --watch · backscroll status --workers --json · "
    "backscroll status --memory"
)
def status(
    watching: Annotated[bool, typer.Option("--watch", help="Anew every 2 s, until Ctrl-C.")] = False,
    workers: Annotated[
        bool, typer.Option("--workers", help="Ask the workers of each queue too (takes a second).")
    ] = False,
    memory: Annotated[
        bool, typer.Option("--memory", help="Also what `backscroll up` and its processes take (Linux).")
    ] = False,
    as_json: JsonOption = False,
    tenant: TenantOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """Show work by kind and state, lags, counts, counters, queues and what was given up.

    Work and what was given up are of all tenants where **BACKSCROLL_MAINTENANCE_DATABASE_URL** is set, the
    rest is of one. With `--watch --json` there is an object on each line. Works without Redis, and says so.
    """
    with opened(data_dir, tenant) as (settings, database):
        sizes = _memory(settings) if memory else None
        if as_json:
            while True:
                told = _as_json(_collect(database, settings), _ask(settings, workers))
                rendering.print_json(told if sizes is None else told | {"memory_bytes": sizes})
                if not watching:
                    return
                time.sleep(rendering.WATCH_SECONDS)
        if watching:
            rendering.watch(lambda: _look(database, settings, workers))
            return
        rendering.out().print(_shown(_collect(database, settings), _ask(settings, workers)))
        if sizes is not None:
            rendering.out().print(_sizes(sizes))


def _memory(settings: Settings) -> dict[str, int]:
    """Bytes by kind of process. Raises `NotFound` where no `backscroll up` of this machine can be looked at."""
    from ops.memory import by_kind

    running = stack.running(settings.data_dir)
    sizes = {} if running is None else by_kind(running.pid)
    if not sizes:
        raise NotFound(
            f"no `backscroll up` with the data folder {settings.data_dir} can be looked at: --memory is for what it "
            "has started, on Linux, and for who started it"
        )
    return sizes


def _sizes(sizes: dict[str, int]) -> RenderableType:
    table = rendering.table("process", "memory", title="\nMemory", right=("memory",))
    for kind, count in sizes.items():
        rendering.row(table, kind, rendering.size(count))
    rendering.row(table, "all", rendering.size(sum(sizes.values())))
    return table


def _collect(database: Database, settings: Settings) -> Status:
    from pipeline.operations import status as pipeline_status

    everybody = settings.maintenance_database_url is not None
    return pipeline_status.collect(database, settings.tenant, all_tenants=everybody)


def _ask(settings: Settings, workers: bool) -> Broker:
    return broker.look(settings, workers=workers)


def _look(database: Database, settings: Settings, workers: bool) -> RenderableType:
    """What is to be seen now; an outage is shown and watched."""
    try:
        return _shown(_collect(database, settings), _ask(settings, workers))
    except DatabaseUnavailable as error:
        return Text(str(error), style="red")


def _as_json(found: Status, asked: Broker) -> dict[str, Any]:
    return asdict(found) | {"backfills": found.backfills, "redis": asked}


def _shown(found: Status, asked: Broker) -> Group:
    return Group(*_parts(found, asked))


def _parts(found: Status, asked: Broker) -> Iterator[RenderableType]:
    vectors = (
        f"pgvector {found.postgres.pgvector}" if found.postgres.pgvector else "no pgvector: keywords alone"
    )
    size = rendering.size(found.postgres.size_bytes)
    yield Text(f"Tenant {found.tenant} at {rendering.moment(found.at)} UTC", style="bold")
    yield Text(f"Postgres {found.postgres.version} answers: {vectors}, {size}")
    if asked.problem:
        yield Text(f"Redis does not answer, what is owed waits for it: {asked.problem}", style="red")
    else:
        swept = asked.swept_seconds_ago
        when = "no sweep within a day" if swept is None else f"the last sweep was {rendering.age(swept)} ago"
        yield Text(f"Redis answers; {when}")
    yield from _stored(found.counts)
    yield from _work(found)
    yield from _queues(asked)
    yield from _counters(found)
    yield from _dead_letters(found)
    for running in found.backfills:
        yield Text(
            f"\nBackfill {running.id} ({running.request.kind}) is {running.state}: {running.seen:,} of "
            f"{running.total:,}; see `backscroll backfills status {running.id}`"
        )


def _stored(counts: Counts) -> Iterator[RenderableType]:
    statuses = ", ".join(f"{count:,} {state}" for state, count in counts.sessions.items())
    yield Text(
        f"{counts.chats:,} chats, {counts.messages:,} messages, {sum(counts.sessions.values()):,} sessions"
        + (f" ({statuses})" if statuses else "")
        + f", {counts.memories:,} memories"
    )
    for space in counts.vectors:
        yield Text(
            f"vectors of {space.space} ({space.status}): {space.messages:,} messages, {space.sessions:,} "
            f"sessions, {space.memories:,} memories"
        )


def _work(found: Status) -> Iterator[RenderableType]:
    if found.counts.waiting:
        since = rendering.age(found.oldest_unplaced_seconds)
        yield Text(f"{found.counts.waiting:,} messages wait for their place, the oldest for {since}")
    if found.counts.quarantined:
        yield Text(
            f"{found.counts.quarantined:,} messages cannot be placed and stand aside: see `backscroll work list`",
            style="red",
        )
    if not found.work:
        yield Text("\nNo work is owed.", style="green")
        return
    headings = ["work", "pending", "running", "retrying", "given up", "oldest"]
    table = rendering.table(*headings, title="\nOwed", right=tuple(headings[1:]))
    for owed in found.work:
        states = (owed.pending, owed.running, owed.retrying, owed.dead)
        rendering.row(table, owed.kind, *states, rendering.age(owed.oldest_seconds))
    yield table


def _queues(asked: Broker) -> Iterator[RenderableType]:
    if asked.problem:
        return
    headings = ["queue", "tasks"] + (["workers"] if asked.workers is not None else [])
    table = rendering.table(*headings, title="\nQueues", right=("tasks",))
    for name, waiting in asked.queues.items():
        if asked.workers is None:
            rendering.row(table, name, waiting)
            continue
        serving = asked.workers[name]
        answered = Text(", ".join(serving)) if serving else Text("none answers", style="red")
        rendering.row(table, name, waiting, answered)
    yield table
    if asked.refused:
        yield Text(
            f"{asked.refused:,} payloads could not be accepted: see `backscroll work list --kind payload`",
            style="red",
        )


def _counters(found: Status) -> Iterator[RenderableType]:
    if not found.week:
        return
    table = rendering.table("what happened", "today", "7 days", right=("today", "7 days"))
    table.title = "\nCounters"
    for name in sorted(found.week):
        # counts are whole; seconds are not
        figures = [f"{values.get(name, 0):,.1f}".removesuffix(".0") for values in (found.today, found.week)]
        rendering.row(table, name, *figures)
    yield table


def _dead_letters(found: Status) -> Iterator[RenderableType]:
    if not found.dead_letters:
        return
    headings = ["given up at (UTC)", "tenant", "work", "tries", "why"]
    table = rendering.table(*headings, title="\nGiven up", right=("tries",), cut="why")
    for letter in found.dead_letters:
        why = rendering.preview(letter.last_error or "", 200)
        at, what = rendering.moment(letter.dead_at), f"{letter.kind} {letter.key}"
        rendering.row(table, at, letter.tenant_id, what, letter.attempts, why)
    yield table
