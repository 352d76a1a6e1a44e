"""`backscroll memories edit`, `promote`, `correct` and `rm`: change one memory by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any
from uuid import UUID

import typer

from ops import connection
from ops.console.command import Call
from ops.console.options import UnseenOption, read_time
from schemas.memory.memory_changes import MemoryCorrection, MemoryEdit, MemoryPromotion
from schemas.payloads import parse_payload

if TYPE_CHECKING:
    from pipeline.memories.manual_changes import Changed

IdArgument = Annotated[UUID, typer.Argument(metavar="ID", help="The memory's id.")]


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
    from pipeline.memories import manual_changes

    fields: dict[str, Any] = {"content": content, "importance": importance, "expires_at": expires}
    changes = {name: value for name, value in fields.items() if value is not None}
    wanted = parse_payload(MemoryEdit, changes | ({"expires_at": None} if expires == "never" else {}))
    with call.opened() as (settings, database):
        changed = manual_changes.edit(database, settings.tenant, memory_id, wanted)
        if changed.outcome == "edited":
            connection.wake(settings, "embed")
    _answer(call, changed)


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
    from pipeline.memories import manual_changes

    scope = "user" if user else "agent" if agent else "organization"
    wanted = parse_payload(MemoryPromotion, {"scope": scope, "user_id": user, "agent_id": agent})
    with call.opened() as opened:
        if wanted.user_id is not None:
            opened.require_user(wanted.user_id, unseen=unseen)
        changed = manual_changes.promote(opened.database, opened.settings.tenant, memory_id, wanted)
    _answer(call, changed)


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
    from pipeline.memories import manual_changes

    said_at = read_time(said, "said")
    wanted = parse_payload(MemoryCorrection, {"content": content, "said_at": said_at, "chat_id": chat})
    with call.opened() as (settings, database):
        changed = manual_changes.correct(database, settings.tenant, memory_id, wanted)
        if changed.outcome == "corrected":
            connection.wake(settings, "embed")
    _answer(call, changed)


def remove(call: Call, memory_id: IdArgument) -> None:
    """Remove a memory; it may be added again. What must not come back is removed by `backscroll forget`."""
    from pipeline.memories import statements

    with call.opened() as (settings, database):
        statements.delete(database, settings.tenant, memory_id)
    call.answer({"id": memory_id, "outcome": "deleted"}, f"{memory_id}: removed")


def _answer(call: Call, changed: Changed) -> None:
    outcomes = {
        "edited": "edited",
        "promoted": "promoted",
        "corrected": "takes the place of the memory",
        "retracted": "retracted",
        "kept_out": "nothing was changed: memory is off for it, or it was forgotten",
    }
    call.answer(vars(changed), f"{changed.id}: {outcomes[changed.outcome]}")
