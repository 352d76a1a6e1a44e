"""List the chats, show one, change one, or remove one that is to be imported again."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.text import Text

from ops.commands.sessions import table_of as sessions_table
from ops.console import rendering, waiting
from ops.console.command import (
    Call,
    ChatArgument,
    DryRunOption,
    ListByDefault,
    UnseenOption,
    YesOption,
    command,
)
from schemas.errors import InvalidInput, NotFound
from schemas.languages import AUTO, normal, spoken
from schemas.memories import VisibilityPolicy
from schemas.messages import ChatIn
from schemas.payloads import NewId, parse_payload
from schemas.people import MembersPayload, Subject

if TYPE_CHECKING:
    from pipeline.store.chats.chats import Chat
    from pipeline.store.connections.database import Database


app = typer.Typer(help=__doc__, cls=ListByDefault, rich_markup_mode="markdown")
tenant_app = typer.Typer(rich_markup_mode="markdown", no_args_is_help=True)

SPEAKERS = 10
SESSIONS = 5
MEANING: dict[VisibilityPolicy, str] = {
    "strict": "another chat's memories are shown only if everybody here was there, too; a direct chat's in no group",
    "tenant": "every memory is shown in every chat, a direct chat's too",
    "chat": "a memory is shown only in the chat where it was learned",
}


@command(app, "backscroll chats list --json", name="list")
def list_(call: Call) -> None:
    """List the chats, the latest active first, in their local time."""
    from pipeline.store.chats import chats as store

    with call.transaction() as (_, connection):
        chats = [dict(row._mapping) for row in store.overview(connection)]
    cells = [
        (
            *(chat[name] for name in ("chat_id", "title", "kind", "message_count", "sessions", "summarized")),
            *(rendering.moment(chat[name], chat["time_zone"]) for name in ("first_at", "last_at")),
            chat["time_zone"],
        )
        for chat in chats
    ]
    numbers = ("messages", "sessions", "summarized")
    headings = ("chat", "title", "kind", *numbers, "first", "last", "time zone")
    nothing = (
        "There is no chat yet. Import one with `backscroll import FILE`, or send messages to the HTTP API."
    )
    call.answer({"chats": chats}, rendering.rows(headings, cells, right=numbers) if chats else nothing)


@command(app, "backscroll chats show telegram:-100420")
def show(call: Call, chat: ChatArgument) -> None:
    """Show a chat: its settings, who speaks, its sessions by status, and the latest sessions."""
    from pipeline.operations import lookup
    from pipeline.store.chats import chats as store
    from pipeline.store.operations import stats
    from pipeline.store.sessions import session_rows

    with call.transaction() as (_, connection):
        stored = lookup.find_chat(connection, chat)
        times = next(row for row in store.overview(connection) if row.chat_id == stored.chat_id)
        by_status = stats.sessions_by_status(connection, stored.chat_id)
        speakers = stats.speakers(connection, stored.chat_id, SPEAKERS)
        latest = session_rows.listing(connection, stored.chat_id, limit=SESSIONS)
    statuses = ", ".join(f"{count:,} {status}" for status, count in by_status.items())
    facts = rendering.facts(
        {
            "chat": stored.chat_id,
            "title": stored.title,
            "kind": f"{stored.kind} on {stored.platform or 'no platform'}",
            "time zone": stored.time_zone,
            "language": f"{stored.language} ({stored.language_by or 'by default'})",
            "messages": stored.message_count,
            "from": rendering.moment(times.first_at, stored.time_zone),
            "to": rendering.moment(times.last_at, stored.time_zone),
            "sessions": statuses or "none yet",
            "speakers": ", ".join(f"{row.speaker} ({row.messages:,})" for row in speakers),
        }
    )
    table = sessions_table(latest, {stored.chat_id: stored.time_zone})
    same = ("chat_id", "title", "platform", "kind", "time_zone", "language", "language_by")
    call.answer(
        {name: getattr(stored, name) for name in same}
        | {
            "messages": stored.message_count,
            "first_at": times.first_at,
            "last_at": times.last_at,
            "sessions": by_status,
            "speakers": [dict(row._mapping) for row in speakers],
            "latest_sessions": [dict(row._mapping) for row in latest],
        },
        facts,
        *((Text("\nLatest sessions:", style="bold"), table) if latest else ()),
    )


@command(app, "backscroll chats remove whatsapp:bookclub --dry-run")
def remove(call: Call, chat: ChatArgument, dry_run: DryRunOption = False, yes: YesOption = False) -> None:
    """Remove a chat with everything that was made of it, so that it can be imported again.

    Unlike `backscroll forget chat` this suppresses nothing: what is sent or imported later is stored. What was
    forgotten stays forgotten. Interrupted, it is finished by the workers; given up, it ends with 5.
    """
    from pipeline.erasure import forget

    with call.opened() as opened:
        settings, database = opened
        chat_id = opened.find_chat(chat).chat_id
        planned = forget.plan(database, settings.tenant, Subject(kind="chat", chat_id=chat_id))
        counts = ", ".join(f"{count:,} {name}" for name, count in planned.items() if name != "chats")
        if dry_run:
            call.answer({"dry_run": True, "would_remove": planned}, f"Would remove {chat_id}: {counts}.")
            return
        call.confirm(f"Remove {chat_id} ({counts})?", yes=yes)
        receipt = forget.remove(database, settings.tenant, chat_id)
        receipt = waiting.await_receipt(database, settings, receipt)
    waiting.answer_receipt(call, receipt, f"{chat_id} is removed")


@command(app, "backscroll chats memory telegram:-100420 off")
def memory(
    call: Call,
    chat: ChatArgument,
    state: Annotated[Literal["on", "off"], "Whether the chat is remembered."],
) -> None:
    """Switch a chat's memory on or off.

    Off: its messages are kept, but nothing is made of them and nothing is searched; contexts hold only its recent
    messages. On again: backfills of its sessions and vectors make up for the time between.
    """
    from pipeline.operations import lookup
    from pipeline.store.chats import chats as store

    with call.transaction() as (settings, connection):
        stored = lookup.find_chat(connection, chat)
        store.ensure(connection, settings.tenant, ChatIn(chat_id=stored.chat_id, memory=state == "on"))
    kinds = ("sessionize", "summarize", "extract", "embed") if state == "on" and not stored.memory else ()
    call.answer(
        {"chat_id": stored.chat_id, "memory": state == "on"},
        f"The memory of {stored.chat_id} is {state}.",
        *(f"Make up for the time:  backscroll backfills start {kind} --chat {chat}" for kind in kinds),
    )


@command(app, "backscroll chats members telegram:-100420 --set telegram:11 --set telegram:12")
def members(
    call: Call,
    chat: ChatArgument,
    named: Annotated[list[str] | None, typer.Option("--set", help="A member; repeatable.")] = None,
    unseen: UnseenOption = False,
) -> None:
    """Show or set who is in a chat: by default everybody who has spoken there.

    What was learned in other chats is shown in this one only if everybody here was there, too. An id that was never
    seen ends the command with 3, before anything changes.
    """
    from pipeline.people import identities

    with call.opened() as opened:
        where = (opened.database, opened.settings.tenant, opened.find_chat(chat).chat_id)
        if named:
            payload = parse_payload(MembersPayload, {"members": named})
            opened.require_user(*payload.members, unseen=unseen)
            listed = identities.set_members(*where, payload.members)
        else:
            listed = identities.show_members(*where)
    call.answer(listed, *listed.members)
    if listed.unnamed and not call.as_json:
        rendering.warn(
            "A member's name is not kept: nothing of other chats is shown until all members are set again."
        )


@command(app, "backscroll chats language whatsapp:Familie german")
def language(
    call: Call,
    chat: ChatArgument,
    to: Annotated[
        str,
        typer.Argument(metavar="LANGUAGE", help="As in german, de or german+english; auto: detected."),
    ],
) -> None:
    """Set the language of a chat, and rebuild its keyword search.

    A chat whose language nobody sets is looked at when it has 20 messages, 100, 500 and so on; `auto` goes back to
    that. Meanwhile everything is found, what is not rebuilt yet by its old words. Interrupted, the workers finish it.
    """
    from pipeline.ingest import languages
    from pipeline.ingest.sessionize import SessionPolicy
    from pipeline.store.chats import chats as store

    try:
        to = to if to == AUTO else normal(to)
    except ValueError as error:
        raise InvalidInput(f"LANGUAGE {error}", field="language") from error
    with call.opened() as opened:
        tenant_id, chat_id = opened.settings.tenant, opened.find_chat(chat).chat_id
        changed = languages.change(opened.database, tenant_id, chat_id, to, SessionPolicy.of(opened.settings))
        with opened.database.tenant(tenant_id) as connection:
            now = store.get(connection, chat_id)
    searched, by = (now.language, now.language_by) if now else (to, None)
    call.answer(
        {"chat_id": chat_id, "language": searched, "language_by": by, "messages_changed": changed},
        f"{chat_id} is searched as {spoken(searched)} now; {changed:,} messages were not.",
    )


@tenant_app.callback()
def tenant_() -> None:
    """Change the settings of all chats of a tenant."""


@command(tenant_app, "backscroll tenant audience chat")
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
        policy = policy_of(chats.tenant_settings(connection).get("audience"))
    call.answer({"tenant": settings.tenant, "audience": policy}, f"{policy}: {MEANING[policy]}")


EXAMPLE_CHARS = 80


@command(app, "backscroll chats rename telegram:-4711 telegram:-1004711 --yes")
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


@command(app, "backscroll chats merge whatsapp:bc whatsapp:bookclub --yes")
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
        receipt = waiting.await_receipt(database, settings, receipt)
    waiting.answer_receipt(call, receipt, f"{chat} is {wanted.to} now")


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
