"""`backscroll status`: pending jobs and lags, what is stored, counters, queues, and dead letters."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from ops.console import rendering
from ops.console.command import Call, command
from ops.local import stack
from schemas.errors import DatabaseUnavailable, NotFound
from schemas.settings import Settings

if TYPE_CHECKING:
    from pipeline.operations.costs import CallTotals, Costs
    from pipeline.operations.status import Counts, Status
    from workers.broker import QueueStatus


app = typer.Typer(rich_markup_mode="markdown")


@command(app, "backscroll status --watch")
def status(
    call: Call,
    watching: Annotated[bool, typer.Option("--watch", help="Refresh every 2 s until Ctrl-C.")] = False,
    workers: Annotated[bool, "Ask the workers of each queue, too (takes a second)."] = False,
    memory: Annotated[bool, "Show the memory of `backscroll up` (Linux)."] = False,
) -> None:
    """Show jobs by kind and state, lags, counts, counters, queues and dead letters.

    Jobs are those of all tenants where **BACKSCROLL_MAINTENANCE_DATABASE_URL** is set, everything else is of one
    tenant. With `--watch --json` there is an object on each line. Works without Redis, and says so.
    """
    from pipeline.operations import status as pipeline_status
    from workers import broker

    with call.opened(judges=True) as (settings, database):
        sizes = _memory(settings) if memory else {}
        sized = [
            (kind, rendering.size(count)) for kind, count in (sizes | {"all": sum(sizes.values())}).items()
        ]
        everybody = settings.maintenance_database_url is not None

        def look() -> tuple[Status, QueueStatus]:
            state = pipeline_status.collect(database, settings.tenant, all_tenants=everybody)
            return state, broker.look(settings, workers=workers)

        def shown() -> RenderableType:
            try:
                return Group(*_parts(*look(), stack.visible(settings.data_dir)))
            except DatabaseUnavailable as error:
                return Text(str(error), style="red")

        if watching and not call.as_json:
            rendering.watch(shown)
            return
        while True:
            (state, queues), up = look(), stack.visible(settings.data_dir)
            call.answer(
                asdict(state)
                | {"backfills": state.backfills, "redis": queues, "failing": up.failing if up else {}}
                | ({"memory_bytes": sizes} if memory else {}),
                Group(*_parts(state, queues, up)),
                *([rendering.rows(("process", "memory"), sized, right=("memory",))] if memory else []),
            )
            if not watching:
                return
            time.sleep(rendering.WATCH_SECONDS)


def _memory(settings: Settings) -> dict[str, int]:
    """Measure bytes by kind of process. Raises `NotFound` if no `backscroll up` of this machine can be read."""
    from ops.local.processes import memory_by_kind

    running = stack.running(settings.data_dir)
    sizes = {} if running is None else memory_by_kind(running.pid)
    if not sizes:
        raise NotFound(
            f"no `backscroll up` with the data folder {settings.data_dir} can be read: --memory works on Linux, for "
            "the user who has started it"
        )
    return sizes


def _parts(state: Status, queues: QueueStatus, up: stack.Running | None) -> Iterator[RenderableType]:
    vectors = (
        f"pgvector {state.postgres.pgvector}" if state.postgres.pgvector else "no pgvector: only keywords"
    )
    size = rendering.size(state.postgres.size_bytes)
    yield Text(f"Tenant {state.tenant} at {rendering.moment(state.at)} UTC", style="bold")
    yield Text(f"Postgres {state.postgres.version} answers: {vectors}, {size}")
    if queues.problem:
        yield Text(f"{queues.problem}. Due jobs wait for it", style="red")
    else:
        swept = queues.swept_seconds_ago
        when = "no sweep within a day" if swept is None else f"the last sweep was {rendering.age(swept)} ago"
        yield Text(f"Redis answers; {when}")
    if up is not None:
        places = {"HTTP API": up.api_url, "/metrics": up.metrics_url, "Flower": up.flower_url}
        yield Text(", ".join(f"{name} at {url}" for name, url in places.items() if url))
        yield from (Text(reason, style="red") for reason in up.failing.values())
    yield from _stored(state.counts)
    yield from _models(state)
    yield from _jobs(state)
    yield from _queues(queues)
    yield from _counters(state)
    yield from _dead_letters(state)
    for running in state.backfills:
        yield Text(
            f"\nBackfill {running.id} ({running.request.kind}) is {running.state}: {running.progress()}; see "
            f"`backscroll backfills status {running.id}`"
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


def _models(state: Status) -> Iterator[RenderableType]:
    used = state.models
    if used.calls or used.reused:
        yield Text(
            f"language models today: {used.calls:,} calls, {used.failed:,} of them failed, {used.reused:,} answers "
            f"reused, {used.input_tokens + used.output_tokens:,} tokens, {rendering.dollars(used.cost)}; see "
            "`backscroll cost`"
        )
    for stopped in state.stopped_providers:
        yield Text(
            f"{stopped.provider} does not answer and is not asked until {rendering.moment(stopped.until)}",
            style="red",
        )


def _jobs(state: Status) -> Iterator[RenderableType]:
    if state.counts.waiting:
        since = rendering.age(state.oldest_unplaced_seconds)
        yield Text(f"{state.counts.waiting:,} messages wait to be placed, the oldest for {since}")
    if state.counts.quarantined:
        yield Text(
            f"{state.counts.quarantined:,} messages cannot be placed and are set aside: see `backscroll jobs list`",
            style="red",
        )
    if not state.jobs:
        yield Text("\nNo jobs are pending.", style="green")
        return
    states = ("pending", "running", "retrying", "dead", "oldest")
    cells = [
        (
            row.kind,
            *map(_counted, (row.pending, row.running, row.retrying, row.dead)),
            rendering.age(row.oldest_seconds),
        )
        for row in state.jobs
    ]
    yield rendering.rows(("kind", *states), cells, title="\nJobs", right=states)
    yield from (Text(f"{row.waiting}.", style="yellow") for row in state.jobs if row.waiting)


def _counted(jobs: int) -> str:
    """Format a number that was counted only so far."""
    from pipeline.operations.status import COUNTED_UP_TO

    return f"{jobs:,}+" if jobs == COUNTED_UP_TO else f"{jobs:,}"


def _queues(queues: QueueStatus) -> Iterator[RenderableType]:
    if not queues.queues:
        return
    answers = {
        name: [Text(", ".join(workers)) if workers else Text("none answers", style="red")]
        for name, workers in (queues.workers or {}).items()
    }
    headings = ("queue", "tasks", *(("workers",) if answers else ()))
    cells = [(name, waiting, *answers.get(name, ())) for name, waiting in queues.queues.items()]
    yield rendering.rows(headings, cells, title="\nQueues", right=("tasks",))
    for name, tasks in queues.unread.items():
        what = (
            f"{tasks:,} tasks wait in the list {name}, which no worker reads: `backscroll jobs move {name}`"
        )
        yield Text(rendering.plain(what), style="red")


def _counters(state: Status) -> Iterator[RenderableType]:
    if state.week:
        cells = [
            (name, *(_figure(name, values.get(name, 0)) for values in (state.today, state.week)))
            for name in sorted(state.week)
        ]
        yield rendering.rows(
            ("counter", "today", "7 days"), cells, title="\nCounters", right=("today", "7 days")
        )


def _figure(name: str, value: float) -> str:
    """Format a counter: counts are whole numbers, seconds and money are not."""
    return f"{value:,.4f}" if name.endswith("_usd") else f"{value:,.1f}".removesuffix(".0")


def _dead_letters(state: Status) -> Iterator[RenderableType]:
    if state.dead_letters:
        cells = [
            (
                *(rendering.moment(dead.dead_at), dead.tenant_id, f"{dead.kind} {dead.key}"),
                "–" if dead.attempts is None else dead.attempts,
                rendering.preview(dead.last_error or "", 200),
            )
            for dead in state.dead_letters
        ]
        headings = ("dead since (UTC)", "tenant", "job", "attempts", "error")
        yield rendering.rows(headings, cells, title="\nDead letters", right=("attempts",), cut="error")


cost_app = typer.Typer(rich_markup_mode="markdown")

HEADINGS = ("calls", "failed", "reused", "tokens in", "tokens out", "cost", "mean time")


@command(cost_app, "backscroll cost --by model --days 7")
def cost(
    call: Call,
    by: Annotated[Literal["day", "model", "purpose", "tenant"], "What to add up by."] = "day",
    days: Annotated[int, typer.Option(min=1, max=3660, help="Days to look at, today included (UTC).")] = 30,
) -> None:
    """Show what language models have cost by day, model, purpose or tenant, and what today's budget leaves.

    `--by tenant` shows all tenants where **BACKSCROLL_MAINTENANCE_DATABASE_URL** is set and no `--tenant` is given,
    everything else is of one tenant. A call that has failed costs nothing as far as is known here; an answer that was
    kept from a worker that died is **reused**, without a call. Calls are kept for **BACKSCROLL_LLM_CALLS_DAYS**.
    """
    from pipeline.llm.ledger import Budget
    from pipeline.operations import costs

    with call.opened(judges=True) as (settings, database):
        everybody = by == "tenant" and call.tenant is None and settings.maintenance_database_url is not None
        collected = costs.collect(
            database,
            settings.tenant,
            by=by,
            days=days,
            budget=Budget.of(settings),
            all_tenants=everybody,
        )
    nothing = f"No language model was called within {days:,} days."
    rows = [_cells(row) for row in [*collected.rows, replace(collected.total, name="total")]]
    table = rendering.rows((by, *HEADINGS), rows, right=HEADINGS)
    call.answer(asdict(collected), table if collected.rows else nothing, *_notes(collected))


def _cells(row: CallTotals) -> tuple[object, ...]:
    mean = "–" if row.mean_seconds is None else f"{row.mean_seconds:.1f} s"
    # of what is partly unknown at least this much
    cost = f"{rendering.dollars(row.cost)}{' + ?' if row.unpriced else ''}"
    return (
        *(row.name, row.calls, row.failed, row.reused, row.input_tokens, row.output_tokens),
        *(cost, mean),
    )


def _notes(costs: Costs) -> list[str]:
    today, notes = costs.today, []
    money = f" of {rendering.dollars(today.budget_cost)}" if today.budget_cost is not None else ""
    tokens = f" of {today.budget_tokens:,}" if today.budget_tokens is not None else ""
    if costs.rows or money or tokens:
        spent = f"{rendering.dollars(today.cost)}{money} and {today.tokens:,}{tokens} tokens"
        notes.append(f"\nSpent today: {spent}.")
    if costs.total.unpriced:
        notes.append(
            f"The price of {costs.total.unpriced:,} calls is not known: name their models in a file of "
            "BACKSCROLL_LLM_PRICES."
        )
    return notes
