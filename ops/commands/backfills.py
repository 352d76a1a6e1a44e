"""`backscroll backfills`: do embedding, summarizing or cutting into sessions again over what is stored."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from ops.commands import rendering, times
from ops.commands.groups import ListByDefault
from ops.commands.hints import opened_hints
from ops.commands.opening import find_chat, opened
from ops.commands.rendering import JsonOption
from ops.connection import DataDirOption, TenantOption
from ops.exit_codes import NOT_AS_IT_SHOULD_BE
from schemas.backfills import Backfill, BackfillKind, BackfillRequest
from schemas.errors import NotFound
from schemas.payloads import parse_payload
from schemas.settings import Settings

if TYPE_CHECKING:
    from pipeline.operations import backfill
    from pipeline.store.database import Database

app = typer.Typer(cls=ListByDefault, rich_markup_mode="markdown")

LISTED = 50
BAR_WIDTH = 40

IdArgument = Annotated[int, typer.Argument(metavar="ID", help="As `backfills list` shows it.")]


@app.callback(
    epilog="**Examples:** backscroll backfills start embed --wait · backscroll backfills start summarize --all "
    "--chat telegram:-100420 · backscroll backfills pause 3",
)
def backfills() -> None:
    """Start, list, watch, pause, resume and cancel backfills.

    A backfill says what is owed again and leaves the work to the workers; one that is interrupted at any
    point goes on where it was.
    """


@app.command(
    epilog="**Examples:** backscroll backfills start embed --dry-run · backscroll backfills start summarize "
    "--since 2026-01-01 --rate 5 · backscroll backfills start sessionize --chat telegram:-100420 --wait"
)
def start(
    kind: Annotated[BackfillKind, typer.Argument(help="What to do again.", show_default=False)],
    chat: Annotated[
        str | None, typer.Option(help="In this chat; default: in all.", show_default=False)
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(help="Sent or ended from then on: 2026-01-31; UTC unless it says.", show_default=False),
    ] = None,
    until: Annotated[str | None, typer.Option(help="… and before then.", show_default=False)] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Also what is there already, not only what is missing.")
    ] = False,
    limit: Annotated[
        int | None, typer.Option(min=1, help="Stop after so many rows.", show_default=False)
    ] = None,
    batch_size: Annotated[int, typer.Option(min=1, max=10_000, help="Rows in one step.")] = 100,
    rate: Annotated[
        float | None, typer.Option(help="Rows a second at most; default: no limit.", show_default=False)
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Count only; start nothing.")] = False,
    wait: Annotated[bool, typer.Option("--wait", help="Until it has ended, with progress.")] = False,
    as_json: JsonOption = False,
    tenant: TenantOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """Start a backfill and return at once (or with `--wait` at its end, with 5 if it has failed).

    - **embed** gives messages, summaries and memories that have no vector one
    - **summarize** summarizes sessions without a summary of the current version
    - **sessionize** cuts chats into sessions again, after the gap has changed
    """
    from pipeline.operations import backfill

    request = parse_payload(
        BackfillRequest,
        {
            "kind": kind,
            "chat_id": chat,
            "since": times.read(since, "since"),
            "until": times.read(until, "until"),
            "missing_only": not everything,
            "limit": limit,
            "batch_size": batch_size,
            "rate_per_second": rate,
        },
    )
    with opened(data_dir, tenant) as (settings, database):
        if chat is not None:
            with database.tenant(settings.tenant) as connection:
                find_chat(connection, chat)
        current = _current(settings)
        if dry_run:
            planned = backfill.plan(database, settings.tenant, request, current)
            rows = planned.rows if everything else planned.missing
            would = min(rows, limit) if limit else rows
            if as_json:
                rendering.print_json({"rows": planned.rows, "missing": planned.missing, "would_raise": would})
            else:
                print(
                    f"{planned.rows:,} rows to look at, {planned.missing:,} of them missing something; "
                    f"{would:,} would be done"
                )
            return
        made = backfill.start(database, settings.tenant, request, current)
        _hint(settings)
        _tell(database, settings, made, as_json=as_json, wait=wait)


@app.command("list", epilog="**Example:** backscroll backfills list --json")
def list_(as_json: JsonOption = False, tenant: TenantOption = None, data_dir: DataDirOption = None) -> None:
    """List the newest backfills."""
    from pipeline.store import backfills as store

    with opened(data_dir, tenant) as (settings, database), database.tenant(settings.tenant) as connection:
        found = store.listing(connection, LISTED)
    if as_json:
        rendering.print_json({"backfills": [_as_dict(each) for each in found]})
        return
    if not found:
        rendering.out().print("There is no backfill yet: see `backscroll backfills start --help`.")
        return
    headings = ["backfill", "kind", "chat", "state", "seen", "of", "raised", "left", "started (UTC)"]
    table = rendering.table(*headings, right=("backfill", "seen", "of", "raised", "left"))
    for each in found:
        chat, began = each.request.chat_id or "all", rendering.moment(each.created_at)
        counts = (each.seen, each.total, each.raised, _left(each))
        rendering.row(table, str(each.id), each.request.kind, chat, each.state, *counts, began)
    rendering.out().print(table)


@app.command(epilog="**Examples:** backscroll backfills status 3 · backscroll backfills status 3 --watch")
def status(
    backfill_id: IdArgument,
    watching: Annotated[bool, typer.Option("--watch", help="Anew every 2 s, until it has ended.")] = False,
    as_json: JsonOption = False,
    tenant: TenantOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """Show how far a backfill has come, and how long the rest takes."""
    with opened(data_dir, tenant) as (settings, database):
        found = _get(database, settings.tenant, backfill_id)
        _tell(database, settings, found, as_json=as_json, wait=watching)


@app.command(epilog="**Example:** backscroll backfills pause 3")
def pause(
    backfill_id: IdArgument,
    as_json: JsonOption = False,
    tenant: TenantOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """Pause a backfill: what it has raised already is still done."""
    _change("paused", backfill_id, as_json, tenant, data_dir)


@app.command(epilog="**Example:** backscroll backfills resume 3")
def resume(
    backfill_id: IdArgument,
    as_json: JsonOption = False,
    tenant: TenantOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """Go on with a backfill that is paused or has failed, from where it was."""
    _change("running", backfill_id, as_json, tenant, data_dir)


@app.command(epilog="**Example:** backscroll backfills cancel 3")
def cancel(
    backfill_id: IdArgument,
    as_json: JsonOption = False,
    tenant: TenantOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """End a backfill for good: what it has raised already is still done."""
    _change("cancelled", backfill_id, as_json, tenant, data_dir)


def _change(
    wish: str, backfill_id: int, as_json: bool, tenant: TenantOption, data_dir: DataDirOption
) -> None:
    from pipeline.operations import backfill

    with opened(data_dir, tenant) as (settings, database):
        _get(database, settings.tenant, backfill_id)
        changed = backfill.change_state(database, settings.tenant, backfill_id, wish)
        if wish == "running":
            _hint(settings)
        _tell(database, settings, changed, as_json=as_json, wait=False)


def _get(database: Database, tenant_id: str, backfill_id: int) -> Backfill:
    from pipeline.store import backfills as store

    with database.tenant(tenant_id) as connection:
        found = store.get(connection, backfill_id) if abs(backfill_id) < 2**63 else None
    if found is None:
        raise NotFound(f"there is no backfill {backfill_id}: see `backscroll backfills list`")
    return found


def _tell(database: Database, settings: Settings, found: Backfill, *, as_json: bool, wait: bool) -> None:
    """Print a backfill, with `wait` until it has ended; one that failed ends with exit code 5."""
    latest = found

    def look() -> RenderableType:
        nonlocal latest
        latest = _get(database, settings.tenant, found.id)
        return _shown(latest)

    def ended() -> bool:
        return latest.state != "running"

    if wait and as_json:
        rendering.poll(look, ended)
    elif wait:
        rendering.watch(look, until=ended)
    else:
        if not as_json:
            rendering.out().print(_shown(found))
            return
    if as_json:
        rendering.print_json(_as_dict(latest))
    if wait and latest.state == "failed":
        raise typer.Exit(NOT_AS_IT_SHOULD_BE)


def _shown(found: Backfill) -> Group:
    share = min(found.seen / found.total, 1.0) if found.total else 1.0
    filled = round(share * BAR_WIDTH)
    left = f", {_left(found)} left" if found.eta() is not None else ""
    parts: list[RenderableType] = [
        Text(
            f"Backfill {found.id}: {found.request.kind} of {found.request.chat_id or 'all chats'}, {found.state}",
            style="bold",
        ),
        Text.assemble(("━" * filled, "green"), ("━" * (BAR_WIDTH - filled), "dim"), f" {share:.0%}"),
        Text(
            f"{found.seen:,} of {found.total:,} rows looked at, {found.raised:,} of them had to be done{left}"
        ),
    ]
    if found.error:
        parts.append(Text(rendering.plain(found.error), style="red"))
    if found.state == "running" and found.seen >= found.total:
        parts.append(Text("All is looked at; the workers are doing what was found."))
    return Group(*parts)


def _left(found: Backfill) -> str:
    eta = found.eta()
    return "" if eta is None else rendering.age(eta.total_seconds())


def _as_dict(found: Backfill) -> dict[str, Any]:
    eta = found.eta()
    return found.model_dump() | {"eta_seconds": None if eta is None else eta.total_seconds()}


def _hint(settings: Settings) -> None:
    with opened_hints(settings, rendering.err()) as hints:
        hints.send("backfill")


def _current(settings: Settings) -> backfill.Current:
    from pipeline.ingest.policy import Rules
    from pipeline.operations import backfill

    return backfill.Current(
        rules=Rules.of(settings),
        summary_version=settings.session_summary_version,
        min_messages=settings.session_min_messages,
    )
