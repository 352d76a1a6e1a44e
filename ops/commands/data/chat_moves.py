"""`backscroll chats rename` and `merge`: a chat's messages under another id."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Annotated

import typer

from ops.console import receipts, rendering
from ops.console.command import Call
from ops.console.options import ChatArgument, YesOption
from schemas.errors import InvalidInput, NotFound
from schemas.payloads import NewId, parse_payload

if TYPE_CHECKING:
    from pipeline.store.chats.chats import Chat
    from pipeline.store.connections.database import Database

EXAMPLE_CHARS = 80


def rename(
    call: Call,
    chat: ChatArgument,
    to: Annotated[str, typer.Argument(metavar="NEW", help="The chat's new id.")],
    yes: YesOption = False,
) -> None:
    """Give a chat a new id, as when a group becomes a supergroup.

    What is still sent under the former id goes to the new one, and so do questions, edits and deletions. Under the
    new id messages may count from 1 again: the earlier ones then have ids such as telegram:-4711/5. Ends with 2 if
    there is a chat of the new id already: see `backscroll chats merge`. Interrupted, it is finished by the workers.
    """
    _move(call, chat, to, yes=yes, is_new=True)


def merge(
    call: Call,
    chat: Annotated[str, typer.Argument(metavar="FROM", help="The chat to remove.")],
    into: Annotated[str, typer.Argument(metavar="INTO", help="The chat to keep.")],
    keep_copies: Annotated[bool, "Merge although both have the same messages, which appear twice."] = False,
    yes: YesOption = False,
) -> None:
    """Merge two chats: all messages of FROM, and what was made of them, belong to INTO from now on.

    Sessions of both that are within one gap are joined and summarized again. What is still sent under FROM goes to
    INTO. Interrupted, it is finished by the workers.

    Ends with 2 if messages of FROM are in INTO too, as of one export that was imported as two chats: the same id,
    sender, text and time. FROM can be removed then, or merged with `--keep-copies`.
    """
    _move(call, chat, into, yes=yes, is_new=False, keep_copies=keep_copies)


def _move(call: Call, chat: str, to: str, *, yes: bool, is_new: bool, keep_copies: bool = False) -> None:
    from pipeline.ingest import chat_moves
    from pipeline.store.chats import chats as store

    wanted = parse_payload(NewId, {"to": to})
    with call.opened() as opened:
        settings, database = opened
        source = opened.find_chat(chat)
        with database.tenant(settings.tenant) as connection:
            target = store.get(connection, wanted.to)
        # a move that was made already is answered as it was
        again = source.chat_id == wanted.to
        if is_new and not again and target is not None and target.moved_to != source.chat_id:
            raise InvalidInput(
                f"there is a chat {wanted.to} already: backscroll chats merge {source.chat_id} {wanted.to}",
                field="new",
            )
        if not is_new and target is None:
            raise NotFound(f"there is no chat {wanted.to}: see `backscroll chats`")
        if not is_new and not again and not keep_copies:
            _refuse_copies(database, settings.tenant, source, wanted.to)
        call.confirm(f"Move {source.message_count:,} messages of {source.chat_id} to {wanted.to}?", yes=yes)
        receipt = chat_moves.start(database, settings.tenant, chat if again else source.chat_id, wanted.to)
        receipt = receipts.finished(database, settings, receipt)
    receipts.answer(call, receipt, f"{chat} is {wanted.to} now")


def _refuse_copies(database: Database, tenant_id: str, chat: Chat, into: str) -> None:
    """Raise `InvalidInput` if both chats have the same messages."""
    from pipeline.platforms.identity import PREFIX
    from pipeline.store.chats import chat_moves as store

    with database.tenant(tenant_id) as connection:
        overlap = store.copies(connection, chat.chat_id, into, PREFIX)
    if not overlap.copies:
        return
    example = f"{rendering.plain(overlap.sender_name)}: {rendering.preview(overlap.content, EXAMPLE_CHARS)}"
    goes, stays = shlex.quote(chat.chat_id), shlex.quote(into)
    advice = "All of them are there"
    if overlap.copies < overlap.messages:
        advice = f"For the others import the export once more with --chat {stays}; then"
    raise InvalidInput(
        f"{overlap.copies:,} of the {overlap.messages:,} messages of {chat.chat_id} are in {into} too and would appear "
        f"there twice, such as that of {rendering.moment(overlap.sent_at, chat.time_zone)}, {example}\n"
        f"{advice}:  backscroll chats remove {goes}\n"
        f"To merge them as they are:  backscroll chats merge {goes} {stays} --keep-copies",
        field="from",
    )
