"""`backscroll memories`: statements written by hand, listed and removed."""

from functools import partial
from typing import Annotated, get_args
from uuid import UUID

import typer

from ops.commands import rendering
from ops.commands.hints import opened_hints
from ops.commands.opening import UnseenOption, opened, require_seen
from ops.commands.rendering import JsonOption
from ops.connection import DataDirOption, TenantOption
from schemas.memories import (
    MANUAL_IMPORTANCE,
    MAX_PAGE,
    PAGE,
    Memory,
    MemoryFilter,
    MemoryPayload,
    MemoryScope,
    MemoryType,
)
from schemas.payloads import parse_payload

app = typer.Typer(rich_markup_mode="markdown", no_args_is_help=True)

SHOWN = 200
SCOPES = ", ".join(get_args(MemoryScope))
TYPES = ", ".join(get_args(MemoryType))


@app.callback(
    epilog="**Examples:** backscroll memories add 'Prefers tea.' --user telegram:11 · "
    "backscroll memories list --user telegram:11 · backscroll memories remove 0199b2c4-…"
)
def memories() -> None:
    """Keep statements about the organization, an agent, a user or a session, which contexts show as what is known."""


@app.command(
    epilog="**Examples:** backscroll memories add 'We meet on Mondays.' --chat telegram:-100420 · "
    "backscroll memories add 'Answers briefly.' --agent helper --type persona · "
    "backscroll memories add 'The form is missing.' --session 30 --expires 2026-06-01T00:00:00Z"
)
def add(
    content: Annotated[str, typer.Argument(help="The statement.", show_default=False)],
    user: Annotated[
        str | None, typer.Option(help="About this user, as in telegram:11.", show_default=False)
    ] = None,
    agent: Annotated[
        str | None,
        typer.Option(help="About this agent; with --user, what it knows of them.", show_default=False),
    ] = None,
    session: Annotated[int | None, typer.Option(help="Of this session alone.", show_default=False)] = None,
    chat: Annotated[
        str | None,
        typer.Option(
            help="Learned in this chat: shown only to those who were there; default: to everybody.",
            show_default=False,
        ),
    ] = None,
    kind: Annotated[str, typer.Option("--type", help=f"One of {TYPES}.")] = "manual",
    importance: Annotated[
        float | None,
        typer.Option(
            help=f"From 0 to 10; default: {MANUAL_IMPORTANCE:g} by hand, else 1.", show_default=False
        ),
    ] = None,
    expires: Annotated[
        str | None, typer.Option(help="Until then, as in 2026-06-01T00:00:00Z.", show_default=False)
    ] = None,
    unseen: UnseenOption = False,
    as_json: JsonOption = False,
    tenant: TenantOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """Remember a statement: of a session, a user or an agent where one is named, else of the organization.

    The same words in the same scope are the same memory. It is found by keyword at once and by meaning when workers
    have embedded it. A user who was never seen ends it with 3.
    """
    from pipeline.memories import statements as pipeline_memories
    from pipeline.operations import lookup

    scope = "session" if session is not None else "user" if user else "agent" if agent else "organization"
    said = {
        "scope": scope,
        "type": kind,
        "content": content,
        "user_id": user,
        "agent_id": agent,
        "session_id": session,
        "learned_in": chat,
        "importance": importance,
        "expires_at": expires,
    }
    given = parse_payload(MemoryPayload, {name: value for name, value in said.items() if value is not None})
    with opened(data_dir, tenant) as (settings, database):
        if given.user_id is not None:
            require_seen(
                partial(lookup.require_user, database, settings.tenant, given.user_id), unseen=unseen
            )
        written = pipeline_memories.Written(outcome="kept_out")
        if settings.session_memory_enabled:
            written = pipeline_memories.remember(database, settings.tenant, given)
        if written.outcome == "new":
            with opened_hints(settings, rendering.err()) as hints:
                hints.send("embed")
    if as_json:
        rendering.print_json(vars(written))
        return
    told = {
        "new": f"{written.id}: remembered",
        "known": f"{written.id}: known already",
        "kept_out": "kept out: memory is off for it, or it was forgotten",
    }
    print(told[written.outcome])


@app.command(
    "list", epilog="**Examples:** backscroll memories list --scope user · backscroll memories list --json"
)
def list_(
    scope: Annotated[str | None, typer.Option(help=f"One of {SCOPES}.", show_default=False)] = None,
    user: Annotated[
        str | None, typer.Option(help="About this user, by any of their ids.", show_default=False)
    ] = None,
    agent: Annotated[str | None, typer.Option(help="About this agent.", show_default=False)] = None,
    chat: Annotated[
        str | None, typer.Option(help="Those alone that may be shown in this chat.", show_default=False)
    ] = None,
    after: Annotated[str | None, typer.Option(help="Go on after this id.", show_default=False)] = None,
    limit: Annotated[int, typer.Option(min=1, max=MAX_PAGE, help="How many.")] = PAGE,
    as_json: JsonOption = False,
    tenant: TenantOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """List memories, the newest first; passages of documents are among them.

    A user or chat that was never seen ends it with 3.
    """
    from pipeline.memories import statements as pipeline_memories
    from pipeline.operations import lookup

    given = parse_payload(
        MemoryFilter,
        {"scope": scope, "user_id": user, "agent_id": agent, "chat_id": chat, "after": after, "limit": limit},
    )
    with opened(data_dir, tenant) as (settings, database):
        if given.user_id is not None:
            lookup.require_user(database, settings.tenant, given.user_id)
        if given.chat_id is not None:
            lookup.require_chat(database, settings.tenant, given.chat_id)
        found = pipeline_memories.listing(database, settings.tenant, given)
    if as_json:
        rendering.print_json({"memories": found})
        return
    table = rendering.table("id", "of", "type", "learned in", "statement", cut="statement")
    for each in found:
        preview = rendering.preview(each.content, SHOWN)
        rendering.row(table, each.id, _owner(each), each.type, each.learned_in or "", preview)
    rendering.out().print(table)
    if len(found) == limit:
        print(f"\nThere may be more: --after {found[-1].id}")


@app.command(epilog="**Example:** backscroll memories remove 0199b2c4-6a7e-7c31-9d54-1f2e3a4b5c6d")
def remove(
    memory_id: Annotated[UUID, typer.Argument(metavar="ID", help="The memory's id.", show_default=False)],
    as_json: JsonOption = False,
    tenant: TenantOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """Remove a memory; it may be added again. What is to stay away goes by `backscroll forget`."""
    from pipeline.memories import statements as pipeline_memories

    with opened(data_dir, tenant) as (settings, database):
        pipeline_memories.delete(database, settings.tenant, memory_id)
    if as_json:
        rendering.print_json({"id": memory_id, "outcome": "deleted"})
    else:
        print(f"{memory_id}: removed")


def _owner(memory: Memory) -> str:
    of = {"session": memory.session_id, "user": memory.user_id, "agent": memory.agent_id}.get(memory.scope)
    return memory.scope if of is None else f"{memory.scope} {of}"
