"""Link the senders of one person, so that memories, export and forgetting apply to the person.

A sender that is linked to nobody is a user of their own, whose id is the sender's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.table import Table

from ops.console import rendering
from ops.console.command import (
    AfterOption,
    Call,
    SenderArgument,
    UnseenOption,
    command,
)
from schemas.memories import MAX_PAGE, PAGE
from schemas.payloads import parse_payload
from schemas.people import KnownMemory, User, UserAddress, UserFilter

if TYPE_CHECKING:
    from pipeline.people.identities import Linked
from typing import get_args

from ops.console.command import ListByDefault
from schemas.facts import Entity, EntityFilter, EntityKind, EntityPlace

app = typer.Typer(help=__doc__, rich_markup_mode="markdown", no_args_is_help=True)
remember_app = typer.Typer(rich_markup_mode="markdown", no_args_is_help=True)

LISTED = 1000
PREVIEW_CHARS = 200

UserArgument = Annotated[str, typer.Argument(help="The user's id: any name you choose, or a sender's id.")]


@command(app, "backscroll users link telegram:11 ann")
def link(call: Call, sender: SenderArgument, user: UserArgument, unseen: UnseenOption = False) -> None:
    """Link a sender to a user, whomever they were linked to before. The user may be new; the sender must be known."""
    from pipeline.people import identities

    who = _address(user, sender)
    with call.opened() as opened:
        opened.require_user(str(who.sender_id), unseen=unseen)
        linked = identities.link(opened.database, opened.settings.tenant, str(who.sender_id), who.user_id)
    _answer_change(call, linked)


@command(app, "backscroll users unlink slack:U1")
def unlink(call: Call, sender: SenderArgument) -> None:
    """Make a sender a user of their own again; what was learned under their id goes with them."""
    from pipeline.people import identities

    with call.opened() as (settings, database):
        linked = identities.unlink(database, settings.tenant, _address(sender).user_id)
    _answer_change(call, linked)


@command(app, "backscroll users merge anna ann")
def merge(
    call: Call,
    user: UserArgument,
    into: Annotated[str, "The user to merge into."],
    unseen: UnseenOption = False,
) -> None:
    """Merge a user, with all their senders, into another; either id names the person then."""
    from pipeline.people import identities

    who = _address(user, into)
    with call.opened() as opened:
        opened.require_user(who.user_id, str(who.sender_id), unseen=unseen)
        linked = identities.merge(opened.database, opened.settings.tenant, who.user_id, str(who.sender_id))
    _answer_change(call, linked)


@command(app, "backscroll users show telegram:11 --chat telegram:-100420")
def show(
    call: Call,
    user: UserArgument,
    chat: Annotated[str | None, "Only what may be shown in this chat when they ask there."] = None,
    after: AfterOption = None,
    limit: Annotated[int, typer.Option(min=1, max=MAX_PAGE, help="Memories at most.")] = PAGE,
    unseen: UnseenOption = False,
) -> None:
    """Show the person to whom an id belongs: what is known of them, since when and from where.

    What was superseded, or is known to be wrong, stands below it. `--json` names the messages, too.
    """
    from pipeline.memories import entities as pipeline_entities

    wanted = parse_payload(UserFilter, {"chat_id": chat, "after": after, "limit": limit})
    with call.opened() as opened:
        opened.require_user(_address(user).user_id, unseen=unseen)
        page = pipeline_entities.user_page(
            opened.database, opened.settings.tenant, _address(user).user_id, wanted
        )
    known = [*page.current, *page.earlier]
    call.answer(
        page,
        _facts(page),
        *([_known("Known", page.current)] if page.current else []),
        *([_known("Earlier", page.earlier)] if page.earlier else []),
        *rendering.more_after([memory.id for memory in known], limit),
    )


@command(app, "backscroll users list --json", name="list")
def list_(call: Call, after: AfterOption = None) -> None:
    """List the users that have linked senders, up to 1,000 at once."""
    from pipeline.people import identities

    with call.opened() as (settings, database):
        users = identities.listing(database, settings.tenant, after=after or "", limit=LISTED)
    headings = ("user", "senders", "chats", "memories", "remembered")
    cells = [
        (user.user_id, ", ".join(user.senders), user.chats, user.memories, "yes" if user.remembered else "no")
        for user in users
    ]
    call.answer({"users": users}, rendering.rows(headings, cells, right=("chats", "memories"), cut="senders"))


@remember_app.callback()
def remember() -> None:
    """Switch remembering of a user on or off. The switch of a chat is `backscroll chats memory`."""


@command(remember_app, "backscroll remember user telegram:11 off", name="user")
def remember_user(
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


def _known(title: str, memories: list[KnownMemory]) -> Table:
    """Make a table of memories; what became of an earlier one stands below it."""
    headings = ("memory", "since (UTC)", "type", "learned in", "sure", "weight", "shown", "statement")
    cells = [
        (
            *(memory.id, rendering.moment(memory.since), memory.type, _place(memory)),
            *(f"{memory.confidence:.0%}", f"{memory.importance:g}", memory.access_count),
            "\n".join([rendering.preview(memory.content, PREVIEW_CHARS), *_endings(memory)]),
        )
        for memory in memories
    ]
    return rendering.rows(headings, cells, title=f"\n{title}", right=("sure", "weight", "shown"))


def _place(memory: KnownMemory) -> str:
    if memory.learned_in is None:
        return ""
    more = f" (+{len(memory.also_in)})" if memory.also_in else ""
    return (memory.learned_in.title or memory.learned_in.chat_id) + more


def _endings(memory: KnownMemory) -> list[str]:
    wrong = (
        [f"known to be wrong since {rendering.moment(memory.retracted_at)}"] if memory.retracted_at else []
    )
    return wrong + [
        f"until {rendering.moment(newer.since)}: {rendering.preview(newer.content, PREVIEW_CHARS)}"
        for newer in memory.superseded_by
    ]


def _address(user: str, sender: str | None = None) -> UserAddress:
    """Check the ids. Raises `InvalidInput`."""
    return parse_payload(UserAddress, {"user_id": user, "sender_id": sender})


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


entities_app = typer.Typer(cls=ListByDefault, rich_markup_mode="markdown")

KINDS = ", ".join(get_args(EntityKind))
ENTITY_CHARS = 120
NOTHING = "No memory names anybody or anything yet: entities come from the facts that a language model gives."

ShownInOption = Annotated[str | None, "Only what may be shown in this chat (default: everything)."]


@entities_app.callback()
def entities() -> None:
    """Show who and what memories name, and how that is related.

    They come from the facts that a language model gives; without one there are none.
    """


@command(entities_app, "backscroll entities list --kind place", name="list")
def list_entities(
    call: Call,
    kind: Annotated[str | None, f"One of {KINDS}."] = None,
    chat: ShownInOption = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="Entities at most.")] = 100,
) -> None:
    """List entities, those of most memories first."""
    from pipeline.memories import entities as pipeline_entities

    wanted = parse_payload(EntityFilter, {"kind": kind, "chat_id": chat, "limit": limit})
    with call.opened() as (settings, database):
        listed = pipeline_entities.listing(database, settings.tenant, wanted)
    cells = [
        (
            *(entity.name, entity.kind, entity.memories, entity.first_at, entity.last_at, entity.chats),
            rendering.preview(entity.description, ENTITY_CHARS),
        )
        for entity in listed.entities
    ]
    headings = ("name", "kind", "memories", "first", "last", "chats", "description")
    table = rendering.rows(headings, cells, right=("memories",), cut="description")
    call.answer(listed, table if cells else NOTHING)


@command(entities_app, "backscroll entities show Porto", name="show")
def show_entity(
    call: Call,
    name: Annotated[str, "The name, in any case, or a person's id."],
    chat: ShownInOption = None,
) -> None:
    """Show who or what a name means: its memories, and how it is related. Times are UTC."""
    from pipeline.memories import entities as pipeline_entities

    where = parse_payload(EntityPlace, {"chat_id": chat})
    with call.opened() as (settings, database):
        answer = pipeline_entities.show(database, settings.tenant, name, where)
    call.answer(answer, *(part for entity in answer.entities for part in _shown(entity)))


def _shown(entity: Entity) -> list[Table]:
    related = [
        (
            f"{edge.relation} of" if edge.inverse else edge.relation,
            *(edge.name, edge.kind, edge.memories, edge.first_at, edge.last_at, edge.chats),
        )
        for edge in entity.related
    ]
    links = [
        (link.at, link.chat_id, link.memory_id, rendering.preview(link.preview, ENTITY_CHARS))
        for link in entity.links
    ]
    facts = {
        "name": entity.name,
        "kind": entity.kind,
        "user": entity.user_id,
        "also": [alias for alias in entity.aliases if alias != entity.name],
        "description": entity.description,
        "memories": entity.memories,
        "from": entity.first_at,
        "to": entity.last_at,
        "chats": entity.chats,
    }
    parts = [rendering.facts({key: value for key, value in facts.items() if value})]
    if related:
        headings = ("relation", "name", "kind", "memories", "first", "last", "chats")
        parts.append(rendering.rows(headings, related, right=("memories",), cut="chats"))
    if links:
        parts.append(rendering.rows(("at", "chat", "memory", "text"), links, cut="text"))
    return parts
