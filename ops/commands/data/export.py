"""`backscroll export`: everything that is known of a user, as JSON Lines."""

import typer

from ops import connection
from ops.console import rendering
from ops.console.command import command
from ops.console.options import DataDirOption, SenderArgument, TenantOption
from schemas.payloads import parse_payload
from schemas.users import UserAddress

app = typer.Typer(rich_markup_mode="markdown", no_args_is_help=True)


@app.callback()
def export() -> None:
    """Export everything that is known of a user."""


@command(app, "backscroll export user telegram:11 > telegram-11.jsonl")
def user(sender: SenderArgument, tenant: TenantOption = None, data_dir: DataDirOption = None) -> None:
    """Write a user's messages, memories, and the sessions they took part in: one JSON object on each line.

    The field `record` of a line says what it is: `user` (whom they are linked with), `message`, `memory`, `chat` (that
    they are in), `session` or `query`. All senders that are linked to them are included. Summaries of sessions mention
    others, too.
    """
    from pipeline.erasure import export as pipeline_export
    from pipeline.operations import lookup

    user_id = parse_payload(UserAddress, {"user_id": sender}).user_id
    with connection.opened(data_dir, tenant) as (settings, database):
        lookup.require_user(database, settings.tenant, user_id)
        for record in pipeline_export.of_user(database, settings.tenant, user_id):
            rendering.print_json(record)
