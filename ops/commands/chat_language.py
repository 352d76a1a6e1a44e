"""`backscroll chats language`: what language a chat is in."""

from typing import Annotated

import typer

from ops.commands import rendering
from ops.commands.opening import find_chat, opened
from ops.connection import DataDirOption, TenantOption
from schemas.errors import InvalidInput
from schemas.messages import LANGUAGES

EXAMPLES = (
    "**Examples:** backscroll chats language whatsapp:Familie german · backscroll chats language app:1 simple"
)


def language(
    chat: Annotated[
        str, typer.Argument(metavar="CHAT", help="Its id, with its platform in front.", show_default=False)
    ],
    to: Annotated[
        str,
        typer.Argument(
            metavar="LANGUAGE", help="One of Postgres's text search configurations.", show_default=False
        ),
    ],
    tenant: TenantOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """Say what language a chat is in: its keyword search is made anew by it.

    Everything is found meanwhile, what is not made yet by its old words. May be run again where it was broken off.
    """
    from pipeline.ingest import languages

    if to not in LANGUAGES:
        raise InvalidInput(f"LANGUAGE {to!r} is not one of {', '.join(LANGUAGES)}", field="language")
    with opened(data_dir, tenant) as (settings, database):
        with database.tenant(settings.tenant) as connection:
            found = find_chat(connection, chat)
        changed = languages.change(database, settings.tenant, found.chat_id, to)
    rendering.out().print(
        f"{found.chat_id} is searched as {to} now; {changed:,} messages were not.", markup=False
    )
