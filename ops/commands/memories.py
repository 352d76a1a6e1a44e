"""Keep statements about the organization, an agent, a user or a session, which contexts show as known facts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, get_args
from uuid import UUID

import typer

from ops import connection
from ops.console import rendering
from ops.console.command import AfterOption, AsOfOption, Call, UnseenOption, command, read_pair, read_time
from schemas.memories import (
    MANUAL_IMPORTANCE,
    MAX_FOUND,
    MAX_PAGE,
    PAGE,
    Memory,
    MemoryCorrection,
    MemoryEdit,
    MemoryFilter,
    MemoryHit,
    MemoryPayload,
    MemoryPromotion,
    MemoryQuery,
    MemoryResult,
    MemoryScope,
    MemoryType,
    certainty,
)
from schemas.payloads import parse_payload

if TYPE_CHECKING:
    from pipeline.memories.statements import MemoryChange


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

    The same words in the same scope and chat are one memory, which is believed again if it was superseded or wrong. It
    is found by keyword at once, and by meaning when workers have embedded it. A user who was never seen ends the
    command with 3.
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
        "expires_at": expires,
    }
    weighed = {} if importance is None else {"importance": importance}
    memory = parse_payload(MemoryPayload, fields | weighed)
    with call.opened() as opened:
        settings = opened.settings
        if memory.user_id is not None:
            opened.require_user(memory.user_id, unseen=unseen)
        written = statements.Written(outcome="kept_out")
        if settings.session_memory_enabled:
            lifetime = settings.session_lifetime()
            written = statements.remember(opened.database, settings.tenant, memory, session_lifetime=lifetime)
        if written.outcome == "new":
            connection.wake(settings, "embed")
    outcomes = {
        "new": f"{written.id}: remembered",
        "known": f"{written.id}: known already",
        "kept_out": "kept out: memory is off for it, or it was forgotten",
    }
    call.answer(vars(written), outcomes[written.outcome])


@dataclass(frozen=True, kw_only=True)
class WhichOptions:
    """The options of every command that looks for memories."""

    scope: Annotated[str | None, f"One of {SCOPES}."] = None
    user: Annotated[str | None, "About this user, by any of their ids."] = None
    agent: Annotated[str | None, "About this agent."] = None
    chat: Annotated[str | None, "Only those that may be shown in this chat."] = None
    source: Annotated[str | None, "From this source."] = None
    as_of: AsOfOption = None

    def fields(self) -> dict[str, Any]:
        """Return them as the API names them. Raises `InvalidInput` for what is no time."""
        named = {"scope": self.scope, "user_id": self.user, "agent_id": self.agent, "chat_id": self.chat}
        return named | {"source": self.source, "as_of": read_time(self.as_of, "as-of")}


@command(app, "backscroll memories list --scope user", name="list")
def list_(
    call: Call,
    which: WhichOptions,
    kind: Annotated[str | None, typer.Option("--type", help=f"One of {TYPES}.")] = None,
    superseded: Annotated[
        bool, "Also those that a newer one has superseded, or that are known to be wrong."
    ] = False,
    after: AfterOption = None,
    limit: Annotated[int, typer.Option(min=1, max=MAX_PAGE, help="Memories at most.")] = PAGE,
) -> None:
    """List memories, the newest first, chunks of documents included.

    A user or chat that was never seen ends the command with 3.
    """
    from pipeline.memories import statements
    from pipeline.operations import lookup

    page = {"type": kind, "superseded": superseded, "after": after, "limit": limit}
    wanted = parse_payload(MemoryFilter, which.fields() | page)
    with call.opened() as (settings, database):
        if wanted.user_id is not None:
            lookup.require_user(database, settings.tenant, wanted.user_id)
        if wanted.chat_id is not None:
            lookup.require_chat(database, settings.tenant, wanted.chat_id)
        memories = statements.listing(database, settings.tenant, wanted)
    cells = [
        (
            row.id,
            _owner(row),
            row.type,
            row.learned_in or "",
            rendering.preview(row.content + _mark(row), PREVIEW_CHARS),
        )
        for row in memories
    ]
    table = rendering.rows(("id", "of", "type", "learned in", "statement"), cells, cut="statement")
    call.answer({"memories": memories}, table, *rendering.more_after([row.id for row in memories], limit))


@command(app, "backscroll memories search 'what does Ann drink?' --type fact --type preference")
def search(
    call: Call,
    words: Annotated[str, "What to look for."],
    which: WhichOptions,
    kind: Annotated[list[str] | None, typer.Option("--type", help=f"One of {TYPES}; repeatable.")] = None,
    metadata: Annotated[
        list[str] | None, typer.Option(metavar="NAME=TEXT", help="With this metadata; repeatable.")
    ] = None,
    min_importance: Annotated[
        float | None, typer.Option(min=0, max=10, help="At least this important.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=MAX_FOUND, help="Memories at most.")] = 10,
    fill: Annotated[bool, "Also those that hardly answer."] = False,
) -> None:
    """Find memories by words and meaning. The HTTP API answers the same to `POST /v1/memories/search`.

    What was superseded is found with `--as-of` a time when it was believed. If nothing is found, a user who was never
    seen ends the command with 3.
    """
    fields = which.fields() | {
        "query": words,
        "types": kind or None,
        "metadata": dict(map(read_pair, metadata)) if metadata else None,
        "min_importance": min_importance,
        "limit": limit,
        "fill": fill,
    }
    query = parse_payload(MemoryQuery, fields)
    with rendering.patience("Searching …", shown=not call.as_json):
        result = call.api().post("/v1/memories/search", query, MemoryResult)
    if which.user is not None and not result.hits:
        call.require_user(which.user)
    cells = [
        (
            hit.rank,
            f"{hit.score:.3f}",
            _owner(hit.memory),
            hit.memory.type,
            rendering.moment(hit.memory.said_at or hit.memory.created_at),
            hit.memory.learned_in or "",
            rendering.with_note(
                rendering.preview(hit.memory.content + _mark(hit.memory), PREVIEW_CHARS), _reasons(hit)
            ),
        )
        for hit in result.hits
    ]
    headings = ("#", "score", "of", "type", "since", "learned in", "statement and why")
    table = rendering.rows(headings, cells, right=("#", "score"), cut="statement and why")
    shown = [certainty(result.evidence), table] if cells else ["No memory matches."]
    call.answer({"query": words, **dict(result)}, *shown)
    for problem in result.degraded:
        rendering.warn(f"Degraded: {problem}")


def _owner(memory: Memory) -> str:
    owner = {"session": memory.session_id, "user": memory.user_id, "agent": memory.agent_id}.get(memory.scope)
    return memory.scope if owner is None else f"{memory.scope} {owner}"


def _mark(memory: Memory) -> str:
    if memory.retracted_at is not None:
        return f" (wrong since {rendering.moment(memory.retracted_at)})"
    return (
        ""
        if memory.superseded_at is None
        else f" (superseded since {rendering.moment(memory.superseded_at)})"
    )


def _reasons(hit: MemoryHit) -> str:
    parts = [f"{name} {value:.2f}" for name, value in hit.components.items()]
    return "; ".join(
        [", ".join(parts), *(f"{arm} #{place}" for arm, place in hit.arms.items()), str(hit.memory.id)]
    )


EXAMPLE_ID = "0199b2c4-6a7e-7c31-9d54-1f2e3a4b5c6d"


IdArgument = Annotated[UUID, typer.Argument(metavar="ID", help="The memory's id.")]


@command(app, f"backscroll memories edit {EXAMPLE_ID} 'Prefers green tea.'")
def edit(
    call: Call,
    memory_id: IdArgument,
    content: Annotated[str | None, typer.Argument(help="The new words (default: as they are).")] = None,
    importance: Annotated[float | None, "0 to 10."] = None,
    expires: Annotated[str | None, "Expires then, as in 2026-06-01T00:00:00Z, or `never`."] = None,
) -> None:
    """Change the words of a memory, its importance or its expiry.

    What is learned later does not change the words. They are embedded again.
    """
    from pipeline.memories import statements

    fields: dict[str, Any] = {"content": content, "importance": importance, "expires_at": expires}
    changes = {name: value for name, value in fields.items() if value is not None}
    wanted = parse_payload(MemoryEdit, changes | ({"expires_at": None} if expires == "never" else {}))
    with call.opened() as (settings, database):
        changed = statements.edit(database, settings.tenant, memory_id, wanted)
        if changed.outcome == "edited":
            connection.wake(settings, "embed")
    _answer(call, changed)


@command(app, f"backscroll memories promote {EXAMPLE_ID} --user telegram:11")
def promote(
    call: Call,
    memory_id: IdArgument,
    user: Annotated[str | None, "Of this user from now on."] = None,
    agent: Annotated[str | None, "Of this agent."] = None,
    unseen: UnseenOption = False,
) -> None:
    """Widen a memory's scope: a session's to a user, an agent or, without either, the organization; theirs likewise.

    Where it was learned stays, and so who may see it. A user who was never seen ends the command with 3.
    """
    from pipeline.memories import statements

    scope = "user" if user else "agent" if agent else "organization"
    wanted = parse_payload(MemoryPromotion, {"scope": scope, "user_id": user, "agent_id": agent})
    with call.opened() as opened:
        if wanted.user_id is not None:
            opened.require_user(wanted.user_id, unseen=unseen)
        changed = statements.promote(opened.database, opened.settings.tenant, memory_id, wanted)
    _answer(call, changed)


@command(app, f"backscroll memories correct {EXAMPLE_ID} 'Ann lives in Braga.'")
def correct(
    call: Call,
    memory_id: IdArgument,
    content: Annotated[
        str | None, typer.Argument(help="The right statement (default: none, it is just wrong).")
    ] = None,
    said: Annotated[str | None, "When that was said, as in 2026-05-03T18:00 (default: now); UTC."] = None,
    chat: Annotated[str | None, "Said in this chat (default: wherever the memory is shown)."] = None,
) -> None:
    """Say that a memory is wrong, and what is right instead, if anything is.

    The right statement supersedes it. It stays as history, is never shown as what is known, and is not learned again
    from the same messages.
    """
    from pipeline.memories import statements

    said_at = read_time(said, "said")
    wanted = parse_payload(MemoryCorrection, {"content": content, "said_at": said_at, "chat_id": chat})
    with call.opened() as (settings, database):
        changed = statements.correct(database, settings.tenant, memory_id, wanted)
        if changed.outcome == "corrected":
            connection.wake(settings, "embed")
    _answer(call, changed)


@command(app, f"backscroll memories rm {EXAMPLE_ID}", name="rm")
def remove(call: Call, memory_id: IdArgument) -> None:
    """Remove a memory; it may be added again. What must not come back is removed by `backscroll forget`."""
    from pipeline.memories import statements

    with call.opened() as (settings, database):
        statements.delete(database, settings.tenant, memory_id)
    call.answer({"id": memory_id, "outcome": "deleted"}, f"{memory_id}: removed")


def _answer(call: Call, changed: MemoryChange) -> None:
    outcomes = {
        "edited": "edited",
        "promoted": "promoted",
        "corrected": "takes the place of the memory",
        "retracted": "retracted",
        "kept_out": "nothing was changed: memory is off for it, or it was forgotten",
    }
    call.answer(vars(changed), f"{changed.id}: {outcomes[changed.outcome]}")
