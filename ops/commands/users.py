"""`backscroll users`: which senders, of one platform or of several, are one person."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from ops.commands import rendering
from ops.commands.opening import UnseenOption, opened, require_seen
from ops.commands.rendering import JsonOption
from ops.connection import DataDirOption, TenantOption
from schemas.payloads import parse_payload
from schemas.users import User, UserAddress

if TYPE_CHECKING:
    from pipeline.people.identities import Linked

app = typer.Typer(rich_markup_mode="markdown", no_args_is_help=True)

LISTED = 1000

SenderArgument = Annotated[
    str, typer.Argument(help="The sender's id, as messages carry it.", show_default=False)
]
UserArgument = Annotated[
    str, typer.Argument(help="The user's id, any name of yours, or a sender's.", show_default=False)
]


@app.callback(
    epilog="**Examples:** backscroll users link telegram:11 ann · backscroll users link slack:U1 ann · "
    "backscroll users show slack:U1"
)
def users() -> None:
    """Link the senders of one person, so that memories, export and forgetting follow the person.

    A sender that is linked to nobody is a user of their own, by their sender's id.
    """


@app.command(epilog="**Example:** backscroll users link telegram:11 ann")
def link(
    sender: SenderArgument,
    user: UserArgument,
    unseen: UnseenOption = False,
    as_json: JsonOption = False,
    tenant: TenantOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """Let a sender belong to a user, whomever they belonged to before. The user may be a new name; the sender not."""
    from pipeline.operations import lookup
    from pipeline.people import identities as pipeline_users

    who = _both(user, sender)
    with opened(data_dir, tenant) as (settings, database):
        require_seen(
            lambda: lookup.require_user(database, settings.tenant, str(who.sender_id)), unseen=unseen
        )
        linked = pipeline_users.link(database, settings.tenant, str(who.sender_id), who.user_id)
    _show_change(linked, as_json)


@app.command(epilog="**Example:** backscroll users unlink slack:U1")
def unlink(
    sender: SenderArgument,
    as_json: JsonOption = False,
    tenant: TenantOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """Let a sender be their own user again; what was learned under their id goes with them."""
    from pipeline.people import identities as pipeline_users

    with opened(data_dir, tenant) as (settings, database):
        linked = pipeline_users.unlink(database, settings.tenant, _both(sender).user_id)
    _show_change(linked, as_json)


@app.command(epilog="**Example:** backscroll users merge anna ann")
def merge(
    user: UserArgument,
    into: Annotated[str, typer.Argument(help="The user that both are from now on.", show_default=False)],
    unseen: UnseenOption = False,
    as_json: JsonOption = False,
    tenant: TenantOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """Let a user, with all their senders, be another one; either id names the person then."""
    from pipeline.operations import lookup
    from pipeline.people import identities as pipeline_users

    who = _both(user, into)
    with opened(data_dir, tenant) as (settings, database):
        for each in (who.user_id, str(who.sender_id)):
            require_seen(partial(lookup.require_user, database, settings.tenant, each), unseen=unseen)
        linked = pipeline_users.merge(database, settings.tenant, who.user_id, str(who.sender_id))
    _show_change(linked, as_json)


@app.command(epilog="**Example:** backscroll users show telegram:11")
def show(
    user: UserArgument,
    as_json: JsonOption = False,
    tenant: TenantOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """Show the person whom an id belongs to."""
    from pipeline.people import identities as pipeline_users

    with opened(data_dir, tenant) as (settings, database):
        found = pipeline_users.show(database, settings.tenant, _both(user).user_id)
    if as_json:
        rendering.print_json(found)
    else:
        _print(found)


@app.command("list", epilog="**Example:** backscroll users list --json")
def list_(
    after: Annotated[str, typer.Option(help="Those after this user's id.", show_default=False)] = "",
    as_json: JsonOption = False,
    tenant: TenantOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """List the users that have linked senders, up to 1,000 at once."""
    from pipeline.people import identities as pipeline_users

    with opened(data_dir, tenant) as (settings, database):
        found = pipeline_users.listing(database, settings.tenant, after=after, limit=LISTED)
    if as_json:
        rendering.print_json({"users": found})
        return
    table = rendering.table(
        "user", "senders", "chats", "memories", "remembered", right=("chats", "memories"), cut="senders"
    )
    for user in found:
        remembered = "yes" if user.remembered else "no"
        rendering.row(table, user.user_id, ", ".join(user.senders), user.chats, user.memories, remembered)
    rendering.out().print(table)


def _both(user: str, other: str | None = None) -> UserAddress:
    """The ids, checked. Raises `InvalidInput`."""
    return parse_payload(UserAddress, {"user_id": user, "sender_id": other})


def _show_change(linked: Linked, as_json: bool) -> None:
    if as_json:
        rendering.print_json(linked)
        return
    print(f"{linked.outcome.capitalize()}.")
    _print(linked.user)


def _print(user: User) -> None:
    facts = rendering.table("", "")
    facts.show_header = False
    for name, value in {
        "user": user.user_id,
        "linked": ", ".join(user.senders) or "nobody else",
        "chats": user.chats,
        "memories": user.memories,
        "remembered": "yes" if user.remembered else "no",
    }.items():
        rendering.row(facts, name, value)
    rendering.out().print(facts)
