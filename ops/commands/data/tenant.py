"""`backscroll tenant`: settings of all chats of a tenant."""

from typing import Annotated

import typer

from ops.console.command import Call, command
from schemas.memories import VisibilityPolicy

app = typer.Typer(rich_markup_mode="markdown", no_args_is_help=True)

MEANING: dict[VisibilityPolicy, str] = {
    "strict": "another chat's memories are shown only if everybody here was there, too; a direct chat's in no group",
    "tenant": "every memory is shown in every chat, a direct chat's too",
    "chat": "a memory is shown only in the chat where it was learned",
}


@app.callback()
def tenant_() -> None:
    """Change the settings of all chats of a tenant."""


@command(app, "backscroll tenant audience chat")
def audience(
    call: Call,
    policy: Annotated[VisibilityPolicy | None, typer.Argument(help="Default: show it.")] = None,
) -> None:
    """Show or set who sees what was learned in another chat: `strict` (the default), `tenant` or `chat`.

    `strict`: those who were all there, and in a group nothing of a direct chat. `tenant`: everybody, also what was
    learned in a direct chat; for tenants that are one team. `chat`: nobody.
    """
    from pipeline.people.visibility import policy_of
    from pipeline.store.chats import chats

    with call.transaction() as (settings, connection):
        if policy is not None:
            chats.set_tenant_setting(connection, settings.tenant, "audience", policy)
        found = policy_of(chats.tenant_settings(connection).get("audience"))
    call.answer({"tenant": settings.tenant, "audience": found}, f"{found}: {MEANING[found]}")
