"""`backscroll users`: which senders, of one platform or of several, are one person."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from ops.console import rendering
from ops.console.command import Call, require_seen, with_options
from ops.console.options import AfterOption, SenderArgument, UnseenOption
from schemas.payloads import parse_payload
from schemas.users import User, UserAddress

if TYPE_CHECKING:
    from pipeline.people.identities import Linked

app = typer.Typer(rich_markup_mode="markdown", no_args_is_help=True)

LISTED = 1000

UserArgument = Annotated[str, typer.Argument(help="The user's id: any name you choose, or a sender's id.")]


@app.callback(
    epilog="**Examples:** backscroll users link telegram:11 ann · backscroll users link slack:U1 ann · "
    "backscroll users show slack:U1"
)
def users() -> None:
    """Link the senders of one person, so that memories, export and forgetting apply to the person.

    A sender that is linked to nobody is a user of their own, whose id is the sender's.
    """


@app.command(epilog="**Example:** backscroll users link telegram:11 ann")
@with_options
def link(call: Call, sender: SenderArgument, user: UserArgument, unseen: UnseenOption = False) -> None:
    """Link a sender to a user, whomever they were linked to before. The user may be new; the sender must be known."""
    from pipeline.operations import lookup
    from pipeline.people import identities as pipeline_users

    who = _both(user, sender)
    with call.opened() as (settings, database):
        require_seen(
            lambda: lookup.require_user(database, settings.tenant, str(who.sender_id)), unseen=unseen
        )
        linked = pipeline_users.link(database, settings.tenant, str(who.sender_id), who.user_id)
    _answer_change(call, linked)


@app.command(epilog="**Example:** backscroll users unlink slack:U1")
@with_options
def unlink(call: Call, sender: SenderArgument) -> None:
    """Make a sender a user of their own again; what was learned under their id goes with them."""
    from pipeline.people import identities as pipeline_users

    with call.opened() as (settings, database):
        linked = pipeline_users.unlink(database, settings.tenant, _both(sender).user_id)
    _answer_change(call, linked)


@app.command(epilog="**Example:** backscroll users merge anna ann")
@with_options
def merge(
    call: Call,
    user: UserArgument,
    into: Annotated[str, typer.Argument(help="The user to merge into.")],
    unseen: UnseenOption = False,
) -> None:
    """Merge a user, with all their senders, into another; either id names the person then."""
    from pipeline.operations import lookup
    from pipeline.people import identities as pipeline_users

    who = _both(user, into)
    with call.opened() as (settings, database):
        for each in (who.user_id, str(who.sender_id)):
            require_seen(partial(lookup.require_user, database, settings.tenant, each), unseen=unseen)
        linked = pipeline_users.merge(database, settings.tenant, who.user_id, str(who.sender_id))
    _answer_change(call, linked)


@app.command(epilog="**Example:** backscroll users show telegram:11")
@with_options
def show(call: Call, user: UserArgument) -> None:
    """Show the person to whom an id belongs."""
    from pipeline.people import identities as pipeline_users

    with call.opened() as (settings, database):
        found = pipeline_users.show(database, settings.tenant, _both(user).user_id)
    call.answer(found, _facts(found))


@app.command("list", epilog="**Example:** backscroll users list --json")
@with_options
def list_(call: Call, after: AfterOption = None) -> None:
    """List the users that have linked senders, up to 1,000 at once."""
    from pipeline.people import identities as pipeline_users

    with call.opened() as (settings, database):
        found = pipeline_users.listing(database, settings.tenant, after=after or "", limit=LISTED)
    headings = ("user", "senders", "chats", "memories", "remembered")
    cells = [
        (each.user_id, ", ".join(each.senders), each.chats, each.memories, "yes" if each.remembered else "no")
        for each in found
    ]
    call.answer({"users": found}, rendering.rows(headings, cells, right=("chats", "memories"), cut="senders"))


def _both(user: str, other: str | None = None) -> UserAddress:
    """Check the ids. Raises `InvalidInput`."""
    return parse_payload(UserAddress, {"user_id": user, "sender_id": other})


def _answer_change(call: Call, linked: Linked) -> None:
    call.answer(linked, f"{linked.outcome.capitalize()}.", _facts(linked.user))


def _facts(user: User) -> Table:
    return rendering.facts(
        {
            "user": user.user_id,
            "linked": ", ".join(user.senders) or "nobody else",
            "chats": user.chats,
            "memories": user.memories,
            "remembered": "yes" if user.remembered else "no",
        }
    )
