"""Keep statements about the organization, an agent, a user or a session, which contexts show as known facts."""

from typing import Annotated, get_args
from uuid import UUID

import typer

from ops import connection
from ops.console import rendering
from ops.console.command import Call, command
from ops.console.options import AfterOption, UnseenOption
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

app = typer.Typer(help=__doc__, rich_markup_mode="markdown", no_args_is_help=True)

PREVIEW_CHARS = 200
SCOPES = ", ".join(get_args(MemoryScope))
TYPES = ", ".join(get_args(MemoryType))


@command(app, "backscroll memories add 'We meet on Mondays.' --chat telegram:-100420")
def add(
    call: Call,
    content: Annotated[str, "The statement."],
    user: Annotated[str | None, "About this user, as in telegram:11."] = None,
    agent: Annotated[str | None, "About this agent; with --user, what it knows of the user."] = None,
    session: Annotated[int | None, "Only about this session."] = None,
    chat: Annotated[str | None, "Learned in this chat: shown only to those who were there."] = None,
    kind: Annotated[str, typer.Option("--type", help=f"One of {TYPES}.")] = "manual",
    importance: Annotated[
        float | None, f"0 to 10 (default: {MANUAL_IMPORTANCE:g} if manual, else 1)."
    ] = None,
    expires: Annotated[str | None, "Expires then, as in 2026-06-01T00:00:00Z."] = None,
    unseen: UnseenOption = False,
) -> None:
    """Remember a statement: about a session, a user or an agent if one is named, else about the organization.

    The same words in the same scope are the same memory. It is found by keyword at once, and by meaning when workers
    have embedded it. A user who was never seen ends the command with 3.
    """
    from pipeline.memories import statements

    scope = "session" if session is not None else "user" if user else "agent" if agent else "organization"
    fields = {
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
    given = parse_payload(MemoryPayload, {name: value for name, value in fields.items() if value is not None})
    with call.opened() as opened:
        settings = opened.settings
        if given.user_id is not None:
            opened.require_user(given.user_id, unseen=unseen)
        written = statements.Written(outcome="kept_out")
        if settings.session_memory_enabled:
            written = statements.remember(opened.database, settings.tenant, given)
        if written.outcome == "new":
            connection.wake(settings, "embed")
    outcomes = {
        "new": f"{written.id}: remembered",
        "known": f"{written.id}: known already",
        "kept_out": "kept out: memory is off for it, or it was forgotten",
    }
    call.answer(vars(written), outcomes[written.outcome])


@command(app, "backscroll memories list --scope user", name="list")
def list_(
    call: Call,
    scope: Annotated[str | None, f"One of {SCOPES}."] = None,
    user: Annotated[str | None, "About this user, by any of their ids."] = None,
    agent: Annotated[str | None, "About this agent."] = None,
    chat: Annotated[str | None, "Only those that may be shown in this chat."] = None,
    after: AfterOption = None,
    limit: Annotated[int, typer.Option(min=1, max=MAX_PAGE, help="Memories at most.")] = PAGE,
) -> None:
    """List memories, the newest first, chunks of documents included.

    A user or chat that was never seen ends the command with 3.
    """
    from pipeline.memories import statements
    from pipeline.operations import lookup

    given = parse_payload(
        MemoryFilter,
        {"scope": scope, "user_id": user, "agent_id": agent, "chat_id": chat, "after": after, "limit": limit},
    )
    with call.opened() as (settings, database):
        if given.user_id is not None:
            lookup.require_user(database, settings.tenant, given.user_id)
        if given.chat_id is not None:
            lookup.require_chat(database, settings.tenant, given.chat_id)
        found = statements.listing(database, settings.tenant, given)
    cells = [
        (
            each.id,
            _owner(each),
            each.type,
            each.learned_in or "",
            rendering.preview(each.content, PREVIEW_CHARS),
        )
        for each in found
    ]
    table = rendering.rows(("id", "of", "type", "learned in", "statement"), cells, cut="statement")
    call.answer({"memories": found}, table, *rendering.more_after([each.id for each in found], limit))


@command(app, "backscroll memories remove 0199b2c4-6a7e-7c31-9d54-1f2e3a4b5c6d")
def remove(
    call: Call,
    memory_id: Annotated[UUID, typer.Argument(metavar="ID", help="The memory's id.")],
) -> None:
    """Remove a memory; it may be added again. What must not come back is removed by `backscroll forget`."""
    from pipeline.memories import statements

    with call.opened() as (settings, database):
        statements.delete(database, settings.tenant, memory_id)
    call.answer({"id": memory_id, "outcome": "deleted"}, f"{memory_id}: removed")


def _owner(memory: Memory) -> str:
    of = {"session": memory.session_id, "user": memory.user_id, "agent": memory.agent_id}.get(memory.scope)
    return memory.scope if of is None else f"{memory.scope} {of}"
