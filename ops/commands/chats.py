"""`backscroll chats`: what chats there are, and what is known of one."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Literal

import typer

from ops.commands import chat_language, chat_moves, rendering
from ops.commands import forget as forgetting
from ops.commands.groups import ListByDefault
from ops.commands.opening import UnseenOption, find_chat, opened, require_seen
from ops.commands.rendering import JsonOption
from ops.connection import DataDirOption, TenantOption
from schemas.forgetting import Subject
from schemas.messages import ChatIn
from schemas.payloads import parse_payload
from schemas.users import MembersPayload

app = typer.Typer(cls=ListByDefault, rich_markup_mode="markdown")

ChatArgument = Annotated[
    str, typer.Argument(metavar="CHAT", help="Its id, with its platform in front.", show_default=False)
]

SPEAKERS = 10
SESSIONS = 5


@app.callback(
    epilog="**Examples:** backscroll chats · backscroll chats show telegram:-100420 · backscroll chats list --json · "
    "backscroll chats remove whatsapp:bookclub --dry-run",
)
def chats() -> None:
    """List the chats, show one, or remove one that is to be imported again."""


@app.command("list", epilog="**Example:** backscroll chats list --json")
def list_(as_json: JsonOption = False, tenant: TenantOption = None, data_dir: DataDirOption = None) -> None:
    """List the chats, the latest active first, in their local time."""
    from pipeline.store import chats as store

    with opened(data_dir, tenant) as (settings, database):
        with database.tenant(settings.tenant) as connection:
            found = [dict(row._mapping) for row in store.overview(connection)]
        if as_json:
            rendering.print_json({"chats": found})
            return
        if not found:
            rendering.out().print(
                "There is no chat yet. Bring one in with `backscroll import FILE`, or send messages to the door."
            )
            return
        table = rendering.table(
            "chat",
            "title",
            "kind",
            "messages",
            "sessions",
            "summarized",
            "first",
            "last",
            "time zone",
            right=("messages", "sessions", "summarized"),
        )
        for chat in found:
            times = [rendering.moment(chat[name], chat["time_zone"]) for name in ("first_at", "last_at")]
            counts = [chat[name] for name in ("message_count", "sessions", "summarized")]
            rendering.row(
                table, chat["chat_id"], chat["title"], chat["kind"], *counts, *times, chat["time_zone"]
            )
        rendering.out().print(table)


@app.command(epilog="**Example:** backscroll chats show telegram:-100420")
def show(
    chat: ChatArgument,
    as_json: JsonOption = False,
    tenant: TenantOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """Show a chat: its settings, who speaks, its sessions by status, and the latest of them."""
    from pipeline.store import chats as store
    from pipeline.store import sessions, stats

    with opened(data_dir, tenant) as (settings, database), database.tenant(settings.tenant) as connection:
        found = find_chat(connection, chat)
        times = next(row for row in store.overview(connection) if row.chat_id == found.chat_id)
        by_status = stats.sessions_by_status(connection, found.chat_id)
        spoke = stats.speakers(connection, found.chat_id, SPEAKERS)
        latest = sessions.listing(connection, found.chat_id, limit=SESSIONS)
    if as_json:
        rendering.print_json(
            {
                "chat_id": found.chat_id,
                "title": found.title,
                "platform": found.platform,
                "kind": found.kind,
                "time_zone": found.time_zone,
                "language": found.language,
                "messages": found.message_count,
                "first_at": times.first_at,
                "last_at": times.last_at,
                "sessions": by_status,
                "speakers": [dict(row._mapping) for row in spoke],
                "latest_sessions": [dict(row._mapping) for row in latest],
            }
        )
        return
    console = rendering.out()
    facts = rendering.table("", "")
    facts.show_header = False
    statuses = ", ".join(f"{count:,} {status}" for status, count in by_status.items())
    for name, value in {
        "chat": found.chat_id,
        "title": found.title,
        "kind": f"{found.kind} on {found.platform or 'no platform'}",
        "time zone": found.time_zone,
        "language": found.language,
        "messages": found.message_count,
        "from": rendering.moment(times.first_at, found.time_zone),
        "to": rendering.moment(times.last_at, found.time_zone),
        "sessions": statuses or "none yet",
        "speakers": ", ".join(f"{row.speaker} ({row.messages:,})" for row in spoke),
    }.items():
        rendering.row(facts, name, value)
    console.print(facts)
    if latest:
        table = rendering.table(
            "session", "began", "messages", "status", "about", right=("session", "messages"), cut="about"
        )
        for row in latest:
            began = rendering.moment(row.started_at, found.time_zone)
            about = rendering.preview(row.summary_text or ", ".join(row.topic_tags), 200)
            rendering.row(table, str(row.id), began, row.message_count, row.status, about)
        console.print("\nLatest sessions:", style="bold")
        console.print(table)


@app.command(
    epilog="**Examples:** backscroll chats remove whatsapp:bookclub --dry-run · "
    "backscroll chats remove whatsapp:bookclub --yes"
)
def remove(
    chat: ChatArgument,
    dry_run: forgetting.DryRunOption = False,
    yes: forgetting.YesOption = False,
    as_json: JsonOption = False,
    tenant: TenantOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """Remove a chat with all that was made of it, so that it can be imported again.

    Other than `backscroll forget chat` this keeps nothing out: what is sent or imported later is stored. What was
    forgotten stays forgotten. Ended half-way, it is finished by the workers; given up, it ends with 5.
    """
    from pipeline.erasure import forget as pipeline_forget

    with opened(data_dir, tenant) as (settings, database):
        with database.tenant(settings.tenant) as connection:
            found = find_chat(connection, chat)
        subject = Subject(kind="chat", chat_id=found.chat_id)
        planned = pipeline_forget.plan(database, settings.tenant, subject)
        told = ", ".join(f"{count:,} {name}" for name, count in planned.items() if name != "chats")
        if dry_run:
            if as_json:
                rendering.print_json({"dry_run": True, "would_remove": planned})
            else:
                print(f"Would remove {found.chat_id}: {told}.")
            return
        if not yes:
            forgetting.not_as_json(as_json, "yes", "--yes")
            typer.confirm(f"Remove {found.chat_id} ({told})?", abort=True)
        receipt = pipeline_forget.remove(database, settings.tenant, found.chat_id)
        receipt = forgetting.finished(database, settings, receipt)
    forgetting.print_receipt(receipt, f"{found.chat_id} is removed", as_json=as_json)


@app.command(
    epilog="**Examples:** backscroll chats memory telegram:-100420 off · backscroll chats memory telegram:-100420 on"
)
def memory(
    chat: ChatArgument,
    state: Annotated[
        Literal["on", "off"], typer.Argument(help="Whether it is remembered.", show_default=False)
    ],
    tenant: TenantOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """Switch a chat's memory on or off.

    Off: its messages are kept, but nothing is made of them and nothing is searched; contexts hold recent talk
    alone. On again: what came meanwhile is made up for by a backfill of its sessions and vectors.
    """
    from pipeline.store import chats as store

    with opened(data_dir, tenant) as (settings, database), database.tenant(settings.tenant) as connection:
        found = find_chat(connection, chat)
        store.ensure(connection, settings.tenant, ChatIn(chat_id=found.chat_id, memory=state == "on"))
    rendering.out().print(f"The memory of {found.chat_id} is {state}.")
    if state == "on" and not found.memory:
        for kind in ("sessionize", "summarize", "embed"):
            rendering.out().print(
                f"Make up for the time without:  backscroll backfills start {kind} --chat {chat}"
            )


@app.command(
    epilog="**Examples:** backscroll chats members telegram:-100420 · "
    "backscroll chats members telegram:-100420 --set telegram:11 --set telegram:12"
)
def members(
    chat: ChatArgument,
    named: Annotated[
        list[str] | None,
        typer.Option("--set", help="All who are there, one by one, without the bots.", show_default=False),
    ] = None,
    unseen: UnseenOption = False,
    as_json: JsonOption = False,
    tenant: TenantOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """Show or say who is in a chat: whoever has spoken there, unless it is said.

    What was learned in other chats is shown in this one only if everybody here was there, too. An id that was never
    seen ends it with 3, before anything is changed.
    """
    from pipeline.operations import lookup
    from pipeline.people import membership as pipeline_members

    with opened(data_dir, tenant) as (settings, database):
        with database.tenant(settings.tenant) as connection:
            found = find_chat(connection, chat)
        if named:
            payload = parse_payload(MembersPayload, {"members": named})
            for each in payload.members:
                require_seen(partial(lookup.require_user, database, settings.tenant, each), unseen=unseen)
            told = pipeline_members.tell(database, settings.tenant, found.chat_id, payload.members)
        else:
            told = pipeline_members.show(database, settings.tenant, found.chat_id)
    if as_json:
        rendering.print_json(told)
        return
    for member in told.members:
        print(rendering.plain(member))
    if told.unnamed:
        rendering.err().print(
            "Somebody is there whose name is not kept: nothing of other chats is shown until all are named anew.",
            style="yellow",
        )


app.command(epilog=chat_moves.RENAME_EXAMPLE)(chat_moves.rename)
app.command(epilog=chat_moves.MERGE_EXAMPLE)(chat_moves.merge)
app.command(epilog=chat_language.EXAMPLES)(chat_language.language)
