"""`backscroll chats rename` and `merge`: a chat's messages under another id."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ops.commands import forget as forgetting
from ops.commands import rendering
from ops.commands.opening import find_chat, opened
from ops.commands.rendering import JsonOption
from ops.connection import DataDirOption, TenantOption
from schemas.errors import InvalidInput, NotFound
from schemas.payloads import NewId, parse_payload

if TYPE_CHECKING:
    from pipeline.store.chats import Chat
    from pipeline.store.database import Database

RENAME_EXAMPLE = "**Example:** backscroll chats rename telegram:-4711 telegram:-1004711 --yes"
MERGE_EXAMPLE = "**Example:** backscroll chats merge whatsapp:bc whatsapp:bookclub --yes"
EXAMPLE_CHARS = 80


def rename(
    chat: Annotated[
        str, typer.Argument(metavar="CHAT", help="Its id, with its platform in front.", show_default=False)
    ],
    to: Annotated[str, typer.Argument(metavar="NEW", help="The id that it has now.", show_default=False)],
    yes: forgetting.YesOption = False,
    as_json: JsonOption = False,
    tenant: TenantOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """Give a chat a new id, as of a group that became a supergroup.

    What is still sent under the former id goes to the new one, and so do questions, edits and deletions. Under the
    new id messages may count from 1 again: those from before are called by both, as in telegram:-4711/5. Ends with 2
    where a chat of the new id is there already: see `backscroll chats merge`. Ended half-way, it is finished by the
    workers.
    """
    _move(chat, to, yes, as_json, tenant, data_dir, is_new=True)


def merge(
    chat: Annotated[str, typer.Argument(metavar="FROM", help="The chat that goes.", show_default=False)],
    into: Annotated[str, typer.Argument(metavar="INTO", help="The chat that stays.", show_default=False)],
    keep_copies: Annotated[
        bool,
        typer.Option("--keep-copies", help="Merge also where both have the same messages: they stand twice."),
    ] = False,
    yes: forgetting.YesOption = False,
    as_json: JsonOption = False,
    tenant: TenantOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """Unite two chats: all that was said in FROM, and was made of it, is of INTO from now on.

    Sessions of both that lie within one pause are joined and summarized again. What is still sent under FROM goes to
    INTO. Ended half-way, it is finished by the workers.

    Ends with 2 where messages of FROM are in INTO too, as of one export that was imported as two chats: the same id,
    sender, text and time. FROM can be removed then, or merged with `--keep-copies`.
    """
    _move(chat, into, yes, as_json, tenant, data_dir, is_new=False, keep_copies=keep_copies)


def _move(
    chat: str,
    to: str,
    yes: bool,
    as_json: bool,
    tenant: str | None,
    data_dir: Path | None,
    *,
    is_new: bool,
    keep_copies: bool = False,
) -> None:
    from pipeline.ingest import chat_moves
    from pipeline.store import chats as store

    wanted = parse_payload(NewId, {"to": to})
    with opened(data_dir, tenant) as (settings, database):
        with database.tenant(settings.tenant) as connection:
            found = find_chat(connection, chat)
            other = store.get(connection, wanted.to)
        # what it leads to already is told as it is
        again = found.chat_id == wanted.to
        if is_new and not again and other is not None and other.moved_to != found.chat_id:
            raise InvalidInput(
                f"there is a chat {wanted.to} already: backscroll chats merge {found.chat_id} {wanted.to}",
                field="new",
            )
        if not is_new and other is None:
            raise NotFound(f"there is no chat {wanted.to}: see `backscroll chats`")
        if not is_new and not again and not keep_copies:
            _refuse_copies(database, settings.tenant, found, wanted.to)
        if not yes:
            forgetting.not_as_json(as_json, "yes", "--yes")
            typer.confirm(
                f"Move {found.message_count:,} messages of {found.chat_id} to {wanted.to}?", abort=True
            )
        receipt = chat_moves.start(database, settings.tenant, chat if again else found.chat_id, wanted.to)
        receipt = forgetting.finished(database, settings, receipt)
    forgetting.print_receipt(receipt, f"{chat} is {wanted.to} now", as_json=as_json)


def _refuse_copies(database: Database, tenant_id: str, chat: Chat, into: str) -> None:
    """Raise `InvalidInput` where both chats have the same messages."""
    from pipeline.platforms.identity import PREFIX
    from pipeline.store import chat_moves as store

    with database.tenant(tenant_id) as connection:
        found = store.copies(connection, chat.chat_id, into, PREFIX)
    if not found.copies:
        return
    said = f"{rendering.plain(found.sender_name)}: {rendering.preview(found.content, EXAMPLE_CHARS)}"
    goes, stays = shlex.quote(chat.chat_id), shlex.quote(into)
    advice = "All is there"
    if found.copies < found.messages:
        advice = f"For the others import the export once more with --chat {stays}; then"
    raise InvalidInput(
        f"{found.copies:,} of the {found.messages:,} messages of {chat.chat_id} are in {into} too and would stand "
        f"there twice, such as that of {rendering.moment(found.sent_at, chat.time_zone)}, {said}\n"
        f"{advice}:  backscroll chats remove {goes}\n"
        f"To merge them as they are:  backscroll chats merge {goes} {stays} --keep-copies",
        field="from",
    )
