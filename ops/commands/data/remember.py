"""`backscroll remember`: whether what a user says is kept."""

from typing import Annotated, Literal

import typer

from ops.console.command import Call, command
from ops.console.options import SenderArgument, UnseenOption
from schemas.payloads import parse_payload
from schemas.users import UserAddress

app = typer.Typer(rich_markup_mode="markdown", no_args_is_help=True)


@app.callback()
def remember() -> None:
    """Switch remembering of a user on or off. The switch of a chat is `backscroll chats memory`."""


@command(app, "backscroll remember user telegram:11 off")
def user(
    call: Call,
    sender: SenderArgument,
    switch: Annotated[Literal["on", "off"] | None, typer.Argument(help="Default: show the state.")] = None,
    unseen: UnseenOption = False,
) -> None:
    """Show or switch whether a user's messages are kept.

    While it is off, nothing new of theirs is stored; what is stored stays until `backscroll forget user`. An id that
    was never seen ends the command with 3, before anything changes.
    """
    from pipeline.people import suppression

    user_id = parse_payload(UserAddress, {"user_id": sender}).user_id
    with call.opened() as opened:
        opened.require_user(user_id, unseen=unseen)
        database, tenant_id = opened.database, opened.settings.tenant
        if switch is not None:
            suppression.remember_user(database, tenant_id, user_id, remembered=switch == "on")
        remembered = suppression.is_remembered(database, tenant_id, user_id)
    call.answer(
        {"sender_id": user_id, "remembered": remembered},
        f"{user_id}: {'remembered' if remembered else 'not remembered'}",
    )
