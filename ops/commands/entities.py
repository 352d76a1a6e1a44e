"""Show who and what memories name, and how that is related.

They come from the facts that a language model gives; without one there are none.
"""

from typing import Annotated, get_args

import typer
from rich.table import Table

from ops.console import rendering
from ops.console.command import Call, ListByDefault, command
from schemas.facts import Entity, EntityFilter, EntityKind, EntityPlace
from schemas.payloads import parse_payload

app = typer.Typer(help=__doc__, cls=ListByDefault, rich_markup_mode="markdown")

KINDS = ", ".join(get_args(EntityKind))
PREVIEW_CHARS = 120
NOTHING = "No memory names anybody or anything yet: entities come from the facts that a language model gives."

ShownInOption = Annotated[str | None, "Only what may be shown in this chat (default: everything)."]


@command(app, "backscroll entities list --kind place", name="list")
def list_(
    call: Call,
    kind: Annotated[str | None, f"One of {KINDS}."] = None,
    chat: ShownInOption = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="Entities at most.")] = 100,
) -> None:
    """List entities, those of most memories first."""
    from pipeline.memories import entities

    wanted = parse_payload(EntityFilter, {"kind": kind, "chat_id": chat, "limit": limit})
    with call.opened() as (settings, database):
        listed = entities.listing(database, settings.tenant, wanted)
    cells = [
        (
            *(entity.name, entity.kind, entity.memories, entity.first_at, entity.last_at, entity.chats),
            rendering.preview(entity.description, PREVIEW_CHARS),
        )
        for entity in listed.entities
    ]
    headings = ("name", "kind", "memories", "first", "last", "chats", "description")
    table = rendering.rows(headings, cells, right=("memories",), cut="description")
    call.answer(listed, table if cells else NOTHING)


@command(app, "backscroll entities show Porto")
def show(
    call: Call,
    name: Annotated[str, "The name, in any case, or a person's id."],
    chat: ShownInOption = None,
) -> None:
    """Show who or what a name means: its memories, and how it is related. Times are UTC."""
    from pipeline.memories import entities

    where = parse_payload(EntityPlace, {"chat_id": chat})
    with call.opened() as (settings, database):
        answer = entities.show(database, settings.tenant, name, where)
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
        (link.at, link.chat_id, link.memory_id, rendering.preview(link.preview, PREVIEW_CHARS))
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
