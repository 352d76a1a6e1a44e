"""`backscroll tenant`: what holds for all chats of a tenant."""

from typing import Annotated

import typer

from ops.commands import rendering
from ops.commands.opening import opened
from ops.commands.rendering import JsonOption
from ops.connection import DataDirOption, TenantOption
from pipeline.people.visibility import Policy, policy_of

app = typer.Typer(rich_markup_mode="markdown", no_args_is_help=True)

MEANING: dict[Policy, str] = {
    "strict": "another chat's memories are shown only to those who were all there, a direct chat's in none but those",
    "tenant": "every memory is shown in every chat, a direct chat's too",
    "chat": "no memory is shown in another chat than where it was learned",
}


@app.callback(epilog="**Examples:** backscroll tenant audience · backscroll tenant audience chat")
def tenant_() -> None:
    """Set what holds for all chats of a tenant."""


@app.command(epilog="**Examples:** backscroll tenant audience · backscroll tenant audience chat")
def audience(
    policy: Annotated[Policy | None, typer.Argument(help="Default: show it.", show_default=False)] = None,
    as_json: JsonOption = False,
    tenant: TenantOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """Show or set who sees what was learned in another chat: `strict` (the default), `tenant` or `chat`.

    `strict`: those who were all there, and nothing of a direct chat in a group. `tenant`: everybody, also what was
    learned in a direct chat; for tenants that are one team. `chat`: nobody.
    """
    from pipeline.store import tenants

    with opened(data_dir, tenant) as (settings, database), database.tenant(settings.tenant) as connection:
        if policy is not None:
            tenants.set_setting(connection, settings.tenant, "audience", policy)
        found = policy_of(tenants.settings(connection).get("audience"))
    if as_json:
        rendering.print_json({"tenant": settings.tenant, "audience": found})
    else:
        print(f"{found}: {MEANING[found]}")
