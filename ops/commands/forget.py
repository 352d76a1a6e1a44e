"""`backscroll forget`: remove a message, a user, a chat or a tenant for good, and show the receipt."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from ops.commands import rendering
from ops.commands.hints import opened_hints
from ops.commands.opening import UnseenOption, opened, require_seen
from ops.commands.rendering import JsonOption
from ops.connection import DataDirOption, TenantOption
from ops.exit_codes import NOT_AS_IT_SHOULD_BE
from schemas.errors import InvalidInput
from schemas.forgetting import Receipt, Subject
from schemas.payloads import parse_payload
from schemas.settings import Settings

if TYPE_CHECKING:
    from pipeline.store.database import Database

app = typer.Typer(rich_markup_mode="markdown", no_args_is_help=True)

LISTED = 50
LOOK_SECONDS = 0.5
FOLLOWING = ("summarize", "embed")

DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Count only; forget nothing.")]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


@app.callback(
    epilog="**Examples:** backscroll forget user telegram:11 --dry-run · backscroll forget chat telegram:-100420 "
    "--yes · backscroll forget receipts"
)
def forget() -> None:
    """Remove messages for good, with their vectors and memories, and summarize what is left without them.

    What was sent until now does not come back, however often it is sent or imported again. What was never
    seen ends it with 3, before anything is forgotten; `--unseen` forgets all the same. Ended half-way, it is
    finished by the workers or the next run; given up, it ends with 5.
    """


@app.command(epilog="**Example:** backscroll forget message telegram:-100420 1041 --yes")
def message(
    chat: Annotated[str, typer.Argument(help="The chat's id.", show_default=False)],
    external_id: Annotated[str, typer.Argument(help="The platform's id.", show_default=False)],
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    unseen: UnseenOption = False,
    as_json: JsonOption = False,
    tenant: TenantOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """Forget one message."""
    _forget(
        {"kind": "message", "chat_id": chat, "external_id": external_id},
        dry_run,
        yes,
        unseen,
        as_json,
        tenant,
        data_dir,
    )


@app.command(epilog="**Example:** backscroll forget user telegram:11 --yes")
def user(
    sender: Annotated[str, typer.Argument(help="The sender's id, as messages carry it.", show_default=False)],
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    unseen: UnseenOption = False,
    as_json: JsonOption = False,
    tenant: TenantOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """Forget all that a user has said until now, in every chat, and what is known of them."""
    _forget({"kind": "user", "sender_id": sender}, dry_run, yes, unseen, as_json, tenant, data_dir)


@app.command(epilog="**Example:** backscroll forget chat telegram:-100420 --dry-run")
def chat(
    chat: Annotated[str, typer.Argument(help="The chat's id.", show_default=False)],
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    unseen: UnseenOption = False,
    as_json: JsonOption = False,
    tenant: TenantOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """Forget a chat with all that was said in it until now."""
    _forget({"kind": "chat", "chat_id": chat}, dry_run, yes, unseen, as_json, tenant, data_dir)


@app.command("tenant", epilog="**Example:** backscroll forget tenant --tenant acme --confirm acme")
def tenant_(
    dry_run: DryRunOption = False,
    confirm: Annotated[
        str | None,
        typer.Option(help="The tenant's name: do not ask for it.", metavar="NAME", show_default=False),
    ] = None,
    as_json: JsonOption = False,
    tenant: TenantOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """Forget everything of a tenant, whose name is to be said once more; receipts and tombstones stay."""
    given = {"kind": "tenant"} | ({} if confirm is None else {"confirm": confirm})
    _forget(given, dry_run, confirm is not None, True, as_json, tenant, data_dir)


@app.command(epilog="**Example:** backscroll forget receipts --json")
def receipts(
    as_json: JsonOption = False, tenant: TenantOption = None, data_dir: DataDirOption = None
) -> None:
    """List the newest receipts: how much was forgotten and when, not whom."""
    from pipeline.store import receipts as store

    with opened(data_dir, tenant) as (settings, database), database.tenant(settings.tenant) as connection:
        found = store.listing(connection, LISTED)
    if as_json:
        rendering.print_json({"receipts": found})
        return
    table = rendering.table(
        "receipt", "what", "messages", "begun (UTC)", "finished", right=("receipt", "messages")
    )
    for each in found:
        finished = rendering.moment(each.finished_at)
        began = rendering.moment(each.created_at)
        rendering.row(table, each.id, each.kind, each.counts.get("messages", 0), began, finished)
    rendering.out().print(table)


def _forget(
    given: dict[str, str],
    dry_run: bool,
    yes: bool,
    unseen: bool,
    as_json: bool,
    tenant: str | None,
    data_dir: Path | None,
) -> None:
    from pipeline.erasure import forget as pipeline_forget

    subject = parse_payload(Subject, given)
    with opened(data_dir, tenant) as (settings, database):
        require_seen(lambda: _require_seen(database, settings.tenant, subject), unseen=unseen)
        planned = pipeline_forget.plan(database, settings.tenant, subject)
        told = ", ".join(f"{count:,} {name}" for name, count in planned.items())
        if dry_run:
            if as_json:
                rendering.print_json({"dry_run": True, "would_forget": planned})
            else:
                print(f"Would forget {told}.")
            return
        if subject.kind == "tenant":
            if subject.confirm is None:
                not_as_json(as_json, "confirm", f"--confirm {settings.tenant}")
                said = typer.prompt(f"Forget {told}, for good? Say the tenant's name ({settings.tenant})")
                subject = subject.model_copy(update={"confirm": said})
            pipeline_forget.check_confirmed(settings.tenant, subject)
        elif not yes:
            not_as_json(as_json, "yes", "--yes")
            typer.confirm(f"Forget {told}, for good?", abort=True)
        receipt = pipeline_forget.start(database, settings.tenant, subject)
        receipt = finished(database, settings, receipt)
    print_receipt(receipt, "forgotten", as_json=as_json)


def print_receipt(receipt: Receipt, done: str, *, as_json: bool) -> None:
    """Say how much went."""
    if as_json:
        rendering.print_json(receipt)
        return
    table = rendering.table("what", "count", right=("count",))
    for name, count in sorted(receipt.counts.items()):
        rendering.row(table, name.replace("_", " "), count)
    rendering.out().print(
        f"Receipt {receipt.id}: {done}, with what was sent until {rendering.moment(receipt.until)}."
    )
    rendering.out().print(table)


def _require_seen(database: Database, tenant_id: str, subject: Subject) -> None:
    from pipeline.operations import lookup

    if subject.sender_id is not None:
        lookup.require_user(database, tenant_id, subject.sender_id)
    if subject.chat_id is not None and subject.external_id is not None:
        lookup.require_message(database, tenant_id, subject.chat_id, subject.external_id)
    elif subject.chat_id is not None:
        lookup.require_chat(database, tenant_id, subject.chat_id)


def not_as_json(as_json: bool, field: str, option: str) -> None:
    """Refuse to ask where nobody is. Raises `InvalidInput`."""
    if as_json:
        raise InvalidInput(f"with --json nobody is asked: add {option}", field=field)


def finished(database: Database, settings: Settings, receipt: Receipt) -> Receipt:
    """The receipt when all is done, by this process or by a worker that was quicker."""
    from pipeline.erasure import forget as pipeline_forget
    from pipeline.ingest.policy import Rules
    from pipeline.jobs import runner
    from pipeline.jobs.runner import Policy

    handler = pipeline_forget.forgetter(database, Rules.of(settings))
    policy = Policy(batch=1, lease_seconds=settings.lease_seconds, max_attempts=settings.work_max_attempts)
    while receipt.finished_at is None:
        claimed = runner.run(database, "forget", handler, policy).claimed
        reason = pipeline_forget.given_up(database, settings.tenant, receipt.id)
        receipt = pipeline_forget.get(database, settings.tenant, receipt.id)
        if reason is not None:
            _tell_given_up(receipt, reason)
        if receipt.finished_at is None and not claimed:
            time.sleep(LOOK_SECONDS)
    with opened_hints(settings, rendering.err()) as hints:
        for kind in FOLLOWING:
            hints.send(kind)
    return receipt


def _tell_given_up(receipt: Receipt, reason: str) -> NoReturn:
    """End with what became of a forgetting that is not done, and what to do."""
    gone = receipt.counts.get("messages", 0)
    rendering.err().print(
        f"Receipt {receipt.id} is not finished: forgetting was given up ({reason}). {gone:,} messages are gone, "
        "what is left is still there, and nothing comes back meanwhile. Mend the cause, then let workers go on "
        f"(backscroll work replay forget {receipt.id}) or run the same command again.",
        style="red",
        markup=False,
        soft_wrap=True,
    )
    raise typer.Exit(NOT_AS_IT_SHOULD_BE)
