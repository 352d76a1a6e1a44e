"""Remove messages for good, with their vectors and memories, and summarize the remaining ones again.

What was sent until now does not come back, however often it is sent or imported again. An id that was never
seen ends the command with 3, before anything is forgotten; `--unseen` forgets it all the same. Interrupted, it is
finished by the workers or the next run; given up, it ends with 5.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ops.connection import require_seen
from ops.console import rendering
from ops.console import waiting as console_receipts
from ops.console.command import (
    Call,
    ChatArgument,
    DryRunOption,
    SenderArgument,
    UnseenOption,
    YesOption,
    command,
)
from ops.local.embedded.folder import write_private
from schemas.errors import InvalidInput, NotFound
from schemas.payloads import parse_payload
from schemas.people import Forgotten, Subject

if TYPE_CHECKING:
    from pipeline.store.connections.database import Database


app = typer.Typer(help=__doc__, rich_markup_mode="markdown", no_args_is_help=True)

LISTED = 50


@dataclass(frozen=True, kw_only=True)
class ForgetOptions:
    """The options of every command that forgets messages."""

    dry_run: DryRunOption = False
    yes: YesOption = False
    unseen: UnseenOption = False


@command(app, "backscroll forget message telegram:-100420 1041 --yes")
def message(
    call: Call,
    chat: ChatArgument,
    external_id: Annotated[str, "The platform's id."],
    options: ForgetOptions,
) -> None:
    """Forget one message."""
    fields = {"kind": "message", "chat_id": chat, "external_id": external_id}
    _forget(call, fields, options)


@command(app, "backscroll forget user telegram:11 --yes")
def user(call: Call, sender: SenderArgument, options: ForgetOptions) -> None:
    """Forget all that a user has said until now, in every chat, and what is known of them."""
    _forget(call, {"kind": "user", "sender_id": sender}, options)


@command(app, "backscroll forget chat telegram:-100420 --dry-run")
def chat(call: Call, chat: ChatArgument, options: ForgetOptions) -> None:
    """Forget a chat with all that was said in it until now."""
    _forget(call, {"kind": "chat", "chat_id": chat}, options)


@command(app, "backscroll forget tenant --tenant acme --confirm acme", name="tenant")
def tenant_(
    call: Call,
    dry_run: DryRunOption = False,
    confirm: Annotated[
        str | None, typer.Option(help="The tenant's name, not asked for then.", metavar="NAME")
    ] = None,
) -> None:
    """Forget everything of a tenant, whose name must be confirmed; receipts and the suppression list are kept."""
    fields = {"kind": "tenant"} | ({} if confirm is None else {"confirm": confirm})
    _forget(call, fields, ForgetOptions(dry_run=dry_run, unseen=True))


@command(app, "backscroll forget receipts --json")
def receipts(call: Call) -> None:
    """List the newest receipts: how much was forgotten and when, not whom."""
    from pipeline.store.erasure import erasure as store

    with call.transaction() as (_, connection):
        rows = store.list_receipts(connection, LISTED)
    cells = [
        (
            *(row.id, row.kind, row.counts.get("messages", 0)),
            *(row.created_at, row.finished_at or "–"),
        )
        for row in rows
    ]
    headings = ("receipt", "what", "messages", "begun (UTC)", "finished")
    call.answer({"receipts": rows}, rendering.rows(headings, cells, right=("receipt", "messages")))


@command(app, "backscroll forget export forgotten.jsonl")
def export(
    call: Call, file: Annotated[Path, "File to write, which holds no names but a key: keep it secret."]
) -> None:
    """Write the suppression list, to forget again what a backup of an earlier time brings back."""
    from pipeline.erasure import forget

    with call.opened() as (settings, database):
        listed = forget.suppressed(database, settings.tenant)
    if listed is None:
        raise NotFound("nothing was ever forgotten: there is no suppression list")
    write_forgotten(file, listed)
    call.answer(
        {"file": str(file.absolute()), "entries": len(listed.entries)},
        f"{file}: {len(listed.entries):,} entries of {listed.tenant}. After a restore: backscroll forget again {file}",
    )


@command(app, "backscroll forget again forgotten.jsonl")
def again(call: Call, file: Annotated[Path, "File that `backscroll forget export` wrote."]) -> None:
    """Take a suppression list over, and forget again what of it is stored here, as after a restore."""
    from pipeline.erasure import forget

    lists = read_forgotten(file)
    with call.opened() as (settings, database):
        if owner := next((listed.tenant for listed in lists if listed.tenant != settings.tenant), None):
            raise InvalidInput(f"{file} is of the tenant {owner}: say --tenant {owner}", field="tenant")
        done = [forget.forget_again(database, listed) for listed in lists]
        receipts = [
            console_receipts.await_receipt(database, settings, receipt)
            for outcome in done
            for receipt in outcome.receipts
        ]
    taken_over, lost = sum(outcome.taken_over for outcome in done), sum(outcome.lost for outcome in done)
    call.answer(
        {"taken_over": taken_over, "lost": lost, "receipts": receipts},
        f"{taken_over:,} entries were not known here; what was stored of {len(receipts):,} is forgotten again.",
        *([f"{lost:,} entries have another key: what comes of them is not kept out."] if lost else []),
    )


def write_forgotten(path: Path, forgotten: Forgotten) -> None:
    """Write a tenant's suppression list, for its owner alone to read. Raises `DataFolderError`."""
    write_private(path.absolute(), forgotten.model_dump_json() + "\n")


def read_forgotten(path: Path) -> list[Forgotten]:
    """Read the suppression lists of a file, a tenant's on each line. Raises `InvalidInput`."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"{path} cannot be read: {error}", field="forgotten") from None
    try:
        return [parse_payload(Forgotten, json.loads(line)) for line in lines if line.strip()]
    except ValueError as error:
        raise InvalidInput(f"{path} is no suppression list: {error}", field="forgotten") from None


def _forget(call: Call, fields: dict[str, str], options: ForgetOptions) -> None:
    from pipeline.erasure import forget as pipeline_forget

    subject = parse_payload(Subject, fields)
    with call.opened() as (settings, database):
        require_seen(lambda: _require_seen(database, settings.tenant, subject), unseen=options.unseen)
        planned = pipeline_forget.plan(database, settings.tenant, subject)
        counts = ", ".join(f"{count:,} {name}" for name, count in planned.items())
        counts += ", and what was made of them (summaries, facts, contexts that showed them)"
        if options.dry_run:
            call.answer({"dry_run": True, "would_forget": planned}, f"Would forget {counts}.")
            return
        if subject.kind == "tenant":
            if subject.confirm is None:
                call.require_no_question("confirm", f"--confirm {settings.tenant}")
                question = f"Forget {counts}, for good? Type the tenant's name ({settings.tenant})"
                subject = subject.model_copy(update={"confirm": typer.prompt(question, err=True)})
            pipeline_forget.check_confirmed(settings.tenant, subject)
        else:
            call.confirm(f"Forget {counts}, for good?", yes=options.yes)
        receipt = pipeline_forget.start(database, settings.tenant, subject)
        receipt = console_receipts.await_receipt(database, settings, receipt)
    console_receipts.answer_receipt(call, receipt, "forgotten")


def _require_seen(database: Database, tenant_id: str, subject: Subject) -> None:
    from pipeline.operations import lookup

    if subject.sender_id is not None:
        lookup.require_user(database, tenant_id, subject.sender_id)
    if subject.chat_id is not None and subject.external_id is not None:
        lookup.require_message(database, tenant_id, subject.chat_id, subject.external_id)
    elif subject.chat_id is not None:
        lookup.require_chat(database, tenant_id, subject.chat_id)
