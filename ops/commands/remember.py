"""`backscroll remember`: whether what a user says is kept."""

from typing import Annotated, Literal

import typer

from ops.commands import rendering
from ops.commands.opening import UnseenOption, opened, require_seen
from ops.commands.rendering import JsonOption
from ops.connection import DataDirOption, TenantOption
from schemas.payloads import parse_payload
from schemas.users import UserAddress

app = typer.Typer(rich_markup_mode="markdown", no_args_is_help=True)


@app.callback(epilog="**Example:** backscroll remember user telegram:11 off")
def remember() -> None:
    """Switch remembering on and off. A chat's own switch is `memory` in what is said of the chat."""


@app.command(
    epilog="**Examples:** backscroll remember user telegram:11 · backscroll remember user telegram:11 off"
)
def user(
    sender: Annotated[str, typer.Argument(help="The sender's id, as messages carry it.", show_default=False)],
    switch: Annotated[
        Literal["on", "off"] | None, typer.Argument(help="Default: show which it is.", show_default=False)
    ] = None,
    unseen: UnseenOption = False,
    as_json: JsonOption = False,
    tenant: TenantOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """Show or switch whether a user's messages are kept.

    While it is off nothing new of theirs is stored; what there is stays until `backscroll forget user`. An id that
    was never seen ends it with 3, before anything is switched.
    """
    from pipeline.operations import lookup
    from pipeline.people import suppression

    user_id = parse_payload(UserAddress, {"user_id": sender}).user_id
    with opened(data_dir, tenant) as (settings, database):
        require_seen(lambda: lookup.require_user(database, settings.tenant, user_id), unseen=unseen)
        if switch is not None:
            suppression.remember_user(database, settings.tenant, user_id, remembered=switch == "on")
        remembered = suppression.is_remembered(database, settings.tenant, user_id)
    if as_json:
        rendering.print_json({"sender_id": user_id, "remembered": remembered})
    else:
        print(f"{rendering.plain(user_id)}: {'remembered' if remembered else 'not remembered'}")
