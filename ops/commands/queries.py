"""`backscroll queries`: what was asked, shown and answered, and the answer to a context."""

from typing import Annotated

import typer

from ops.commands import rendering
from ops.commands.groups import ListByDefault
from ops.commands.hints import opened_hints
from ops.commands.opening import opened
from ops.commands.rendering import JsonOption
from ops.connection import DataDirOption, TenantOption
from schemas.payloads import parse_payload
from schemas.querylog import AnswerIn

app = typer.Typer(cls=ListByDefault, rich_markup_mode="markdown")

LISTED = 20


@app.callback(
    epilog="**Examples:** backscroll queries · backscroll queries list --chat telegram:-100420 --json · "
    "backscroll queries answer ctx_1f2e 'On 4 May.' --remember",
)
def queries() -> None:
    """List what was asked and answered, or report an answer."""


@app.command("list", epilog="**Example:** backscroll queries list --chat telegram:-100420 --limit 5")
def list_(
    chat: Annotated[str | None, typer.Option(help="In this chat alone.", show_default=False)] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="The newest so many.")] = LISTED,
    as_json: JsonOption = False,
    tenant: TenantOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """List the newest contexts: who asked what, how long it took, and what was answered.

    Questions and answers are missing where something of them was forgotten, or was not to be remembered.
    A chat that was never seen ends it with 3.
    """
    from pipeline.context import query_log
    from pipeline.operations import lookup

    with opened(data_dir, tenant) as (settings, database):
        if chat is not None:
            lookup.require_chat(database, settings.tenant, chat)
        found = query_log.listing(database, settings.tenant, chat, limit)
    if as_json:
        rendering.print_json({"queries": found})
        return
    table = rendering.table(
        "asked (UTC)", "context", "chat", "who", "ms", "tokens", "question", "answer", right=("ms", "tokens")
    )
    for each in found:
        said = [rendering.preview(text or "–", 60) for text in (each.query, each.answer)]
        figures = [f"{each.latency_ms:.0f}", each.used_tokens]
        cells = [each.context_id, each.chat_id, each.user_id or "", *figures, *said]
        rendering.row(table, rendering.moment(each.asked_at), *cells)
    rendering.out().print(table)


@app.command(
    epilog="**Examples:** backscroll queries answer ctx_1f2e 'On 4 May.' · "
    "backscroll queries answer ctx_1f2e 'On 4 May.' --used message:812 --remember"
)
def answer(
    context_id: Annotated[str, typer.Argument(help="As the context had it.", show_default=False)],
    text: Annotated[str, typer.Argument(help="What was answered.", show_default=False)],
    used: Annotated[
        list[str] | None,
        typer.Option(help="An item that the answer rests on, as message:812; may be repeated."),
    ] = None,
    remember: Annotated[
        bool | None,
        typer.Option(
            "--remember/--no-remember",
            help="Whether question and answer become a memory of who asked; default: BACKSCROLL_REMEMBER_ANSWERS.",
            show_default=False,
        ),
    ] = None,
    as_json: JsonOption = False,
    tenant: TenantOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """Report what was answered to a context: the first answer stands."""
    from pipeline.context import query_log

    given = parse_payload(AnswerIn, {"answer": text, "used": used, "remember": remember})
    with opened(data_dir, tenant) as (settings, database):
        answered = query_log.report(database, settings.tenant, context_id, given, settings)
        if answered.memory_id is not None:
            with opened_hints(settings, rendering.err()) as hints:
                hints.send("embed")
    if as_json:
        rendering.print_json(answered)
        return
    told = {
        "stored": "The answer is stored.",
        "known": "There was an answer already, and the first one stands.",
        "kept_out": "Not stored: what it rests on, or who asked, was forgotten or is not to be remembered.",
    }
    print(told[answered.outcome])
    if answered.memory_id is not None:
        print(f"Question and answer are the memory {answered.memory_id}.")
