"""Start, list, watch, pause, resume and cancel backfills.

A backfill makes jobs due again and leaves them to the workers; interrupted at any point, it continues where it
was.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from ops import connection
from ops.connection import Opened
from ops.console import rendering
from ops.console.command import Call, DryRunOption, InChatOption, ListByDefault, YesOption, command, read_time
from ops.exit_codes import NOT_AS_IT_SHOULD_BE
from schemas.backfills import FOR_GOOD, Backfill, BackfillKind, BackfillRequest
from schemas.errors import NotFound
from schemas.payloads import parse_payload

if TYPE_CHECKING:
    from pipeline.operations import costs
    from pipeline.operations.backfill_kinds import Current
    from pipeline.store.connections.database import Database


app = typer.Typer(help=__doc__, cls=ListByDefault, rich_markup_mode="markdown")

LISTED = 50
BAR_WIDTH = 40
NONE_YET = "There is no backfill yet: see `backscroll backfills start --help`."

IdArgument = Annotated[int, typer.Argument(metavar="ID", help="The backfill's number.")]


@command(app, "backscroll backfills start embed --wait")
def start(
    call: Call,
    kind: Annotated[BackfillKind, "What to do again."],
    chat: InChatOption = None,
    since: Annotated[str | None, "Sent, ended or asked from this time on, as in 2026-01-31; UTC."] = None,
    until: Annotated[str | None, "Sent, ended or asked before this time."] = None,
    everything: Annotated[bool, typer.Option("--all", help="Redo what exists, too.")] = False,
    limit: Annotated[int | None, typer.Option(min=1, help="Rows at most (default: all).")] = None,
    batch_size: Annotated[int, typer.Option(min=1, max=10_000, help="Rows in each step.")] = 100,
    rate: Annotated[float | None, "Rows per second at most (default: no limit)."] = None,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    wait: Annotated[bool, "Wait until it has ended, with progress."] = False,
    again: Annotated[bool, "Start it even if one that does the same runs."] = False,
) -> None:
    """Start a backfill and return at once (or with `--wait` at its end, with 5 if it has failed).

    If one that does the same runs or is paused, none is started, and that one is shown.

    - **embed** embeds messages, summaries and memories that have no vector
    - **summarize** summarizes sessions without a summary of the current version
    - **rollup** summarizes past weeks without a summary
    - **extract** learns facts from sessions that were not read yet, or without the language model that is set by now
    - **sessionize** cuts chats into sessions again, after the gap has changed
    - **secrets** masks credentials in all that is stored, as `BACKSCROLL_SECRETS` does in what comes; for good
    - **answers** remembers reported answers, with their questions, as `BACKSCROLL_REMEMBER_ANSWERS` does new ones
    """
    from pipeline.operations import backfill
    from pipeline.operations.backfill_kinds import Current

    body: dict[str, Any] = {"kind": kind, "chat_id": chat, "missing_only": not everything, "limit": limit}
    body |= {"since": read_time(since, "since"), "until": read_time(until, "until")}
    request = parse_payload(BackfillRequest, body | {"batch_size": batch_size, "rate_per_second": rate})
    with call.opened(judges=True) as opened:
        settings, database = opened
        if chat is not None:
            opened.find_chat(chat)
        current = Current.of(settings)
        if dry_run:
            planned = backfill.plan(database, settings.tenant, request, current)
            rows = planned.rows if everything else planned.missing
            would = min(rows, limit) if limit else rows
            estimated = _estimate(opened, request, current)
            call.answer(
                {"rows": planned.rows, "missing": planned.missing, "would_raise": would}
                | ({"estimate": estimated} if estimated else {}),
                f"{planned.rows:,} rows to check, {planned.missing:,} of them incomplete; {would:,} would be done",
                *([_sentence(estimated)] if estimated else []),
            )
            return
        if kind in FOR_GOOD:
            planned = backfill.plan(database, settings.tenant, request, current)
            call.confirm(f"Mask credentials in {planned.missing:,} texts, for good?", yes=yes)
        made = backfill.start(database, settings.tenant, request, current, again=again)
        if made.was_running and not call.as_json:
            by = made.started_by or "somebody"
            print(f"Nothing is started: backfill {made.id} of {by} does the same; --again starts another.")
        connection.wake(settings, "backfill")
        _answer(call, database, settings.tenant, made, wait=wait)


@command(app, "backscroll backfills list --json", name="list")
def list_(call: Call) -> None:
    """List the newest backfills."""
    from pipeline.store.jobs import backfill_rows as store

    with call.transaction() as (_, as_tenant):
        runs = store.with_pending(as_tenant, store.listing(as_tenant, LISTED))
    cells = [
        (
            *(str(run.id), run.request.kind, run.request.chat_id or "all", run.state),
            *(run.seen, run.total, run.raised, _left(run)),
            *(rendering.moment(run.created_at), run.started_by or "–"),
        )
        for run in runs
    ]
    headings = (
        "backfill",
        "kind",
        "chat",
        "state",
        "checked",
        "of",
        "due again",
        "left",
        "started (UTC)",
        "by",
    )
    table = rendering.rows(headings, cells, right=("backfill", "checked", "of", "due again", "left"))
    call.answer({"backfills": [_as_dict(run) for run in runs]}, table if runs else NONE_YET)


@command(app, "backscroll backfills status --watch")
def status(
    call: Call,
    backfill_id: Annotated[
        int | None, typer.Argument(metavar="ID", help="The backfill's number (default: the newest).")
    ] = None,
    watching: Annotated[bool, typer.Option("--watch", help="Refresh every 2 s until it has ended.")] = False,
) -> None:
    """Show the progress of a backfill, and how long the rest takes."""
    from pipeline.store.jobs import backfill_rows as store

    with call.opened() as (settings, database):
        if backfill_id is None:
            with database.tenant(settings.tenant) as as_tenant:
                newest = store.listing(as_tenant, 1)
            if not newest:
                raise NotFound(NONE_YET)
            backfill_id = newest[0].id
        run = _get(database, settings.tenant, backfill_id)
        _answer(call, database, settings.tenant, run, wait=watching)


@command(app, "backscroll backfills pause 3")
def pause(call: Call, backfill_id: IdArgument) -> None:
    """Pause a backfill; jobs that it has made due are still done."""
    _change(call, "paused", backfill_id)


@command(app, "backscroll backfills resume 3")
def resume(call: Call, backfill_id: IdArgument) -> None:
    """Resume a backfill that is paused or has failed, from where it was."""
    _change(call, "running", backfill_id)


@command(app, "backscroll backfills cancel 3")
def cancel(call: Call, backfill_id: IdArgument) -> None:
    """Cancel a backfill for good; jobs that it has made due are still done."""
    _change(call, "cancelled", backfill_id)


def _change(call: Call, wish: str, backfill_id: int) -> None:
    from pipeline.operations import backfill

    with call.opened() as (settings, database):
        _get(database, settings.tenant, backfill_id)
        changed = backfill.change_state(database, settings.tenant, backfill_id, wish)
        if wish == "running":
            connection.wake(settings, "backfill")
        _answer(call, database, settings.tenant, changed, wait=False)


def _get(database: Database, tenant_id: str, backfill_id: int) -> Backfill:
    from pipeline.store.jobs import backfill_rows as store

    with database.tenant(tenant_id) as as_tenant:
        run = store.get(as_tenant, backfill_id) if abs(backfill_id) < 2**63 else None
        if run is not None:
            return store.with_pending(as_tenant, [run])[0]
    raise NotFound(f"there is no backfill {backfill_id}: see `backscroll backfills list`")


def _answer(call: Call, database: Database, tenant_id: str, run: Backfill, *, wait: bool) -> None:
    """Print a backfill; with `wait` when it has ended, and exit with 5 if it has failed."""
    if not wait:
        call.answer(_as_dict(run), _shown(run))
        return

    def look() -> RenderableType:
        nonlocal run
        run = _get(database, tenant_id, run.id)
        return _shown(run)

    (rendering.poll if call.as_json else rendering.watch)(look, lambda: run.state != "running")
    if call.as_json:
        rendering.print_json(_as_dict(run))
    if run.state == "failed":
        raise typer.Exit(NOT_AS_IT_SHOULD_BE)


def _shown(run: Backfill) -> Group:
    share = min(run.seen / run.total, 1.0) if run.total else 1.0
    filled = round(share * BAR_WIDTH)
    left = f", time left: {_left(run)}" if run.state == "running" else ""
    parts: list[RenderableType] = [
        Text(
            f"Backfill {run.id}: {run.request.kind} of {run.request.chat_id or 'all chats'}, {run.state}",
            style="bold",
        ),
        Text.assemble(("━" * filled, "green"), ("━" * (BAR_WIDTH - filled), "dim"), f" {share:.0%}"),
        Text(f"{run.seen:,} of {run.total:,} rows checked, {run.raised:,} of them due again{left}"),
    ]
    if run.error:
        parts.append(Text(rendering.plain(run.error), style="red"))
    if run.state == "running" and run.seen >= run.total:
        parts.append(Text(f"All rows are checked; the workers have {run.pending:,} of them to do."))
    return Group(*parts)


def _left(run: Backfill) -> str:
    eta, unknown = run.eta(), "estimating" if run.state == "running" else ""
    return unknown if eta is None else rendering.age(eta.total_seconds())


def _as_dict(run: Backfill) -> dict[str, Any]:
    eta = run.eta()
    return run.model_dump() | {"eta_seconds": None if eta is None else eta.total_seconds()}


def _estimate(opened: Opened, request: BackfillRequest, current: Current) -> costs.Estimate | None:
    """Estimate what summaries, learning or vectors take; None: of others that is not known."""
    from pipeline.enrich.summaries.summarizers import ExtractiveSummarizer
    from pipeline.llm.ledger import load_prices
    from pipeline.llm.limits import Limits
    from pipeline.operations import backfill, costs
    from pipeline.operations.backfill_kinds import KINDS
    from pipeline.store import vectors
    from schemas.facts import RULES
    from workers import queues

    settings, database = opened
    measured, prices = KINDS[request.kind].measured, load_prices(settings.llm_prices)
    if measured is None:
        return None
    with database.tenant(settings.tenant) as as_tenant:
        counted = backfill.count_tokens(as_tenant, request, current)
        if request.kind == "embed":
            spaces = vectors.written_spaces(as_tenant)
            return costs.estimate_embedding(as_tenant, spaces, counted, prices, measured)
        model = settings.learning_model() if request.kind == "extract" else settings.session_summary_model
        if model in {ExtractiveSummarizer.model, RULES}:
            return costs.estimate_free(as_tenant, counted, model, measured)
        return costs.estimate_calls(
            as_tenant,
            settings.tenant,
            model,
            counted,
            prices=prices,
            limits=Limits.of(settings),
            at_once=min(queues.SUMMARIZE.concurrency, settings.llm_max_concurrent),
        )


def _sentence(estimated: costs.Estimate) -> str:
    took = "an unknown time" if estimated.seconds is None else f"some {rendering.age(estimated.seconds)}"
    money = f"some {rendering.dollars(estimated.cost)}" if estimated.cost else "no money"
    if estimated.cost is None:
        money = "an unknown amount of money: its price is not in BACKSCROLL_LLM_PRICES"
    return f"With {estimated.model}, {estimated.rows:,} rows of {estimated.tokens:,} tokens take {took} and {money}."
