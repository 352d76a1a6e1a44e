"""`backscroll sessions`: what was talked about, and the transcript of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.console import Console

from ops.commands import rendering
from ops.commands.groups import ListByDefault
from ops.commands.opening import find_chat, find_session, opened
from ops.commands.rendering import JsonOption
from ops.connection import DataDirOption, TenantOption
from schemas.sessions import Message

if TYPE_CHECKING:
    from sqlalchemy import Row

app = typer.Typer(cls=ListByDefault, rich_markup_mode="markdown")

Status = Literal["open", "closed", "summarized", "skipped", "failed"]
# Longer sessions are shown up to here.
TRANSCRIPT = 2000
ABOUT = 200
_LISTS = {
    "Topics": "topic_tags",
    "Decisions": "decisions",
    "Open questions": "open_questions",
    "Action items": "action_items",
    "Names": "entities",
}


@app.callback(
    epilog="**Examples:** backscroll sessions · backscroll sessions list --chat telegram:-100420 --limit 50 · "
    "backscroll sessions show 12",
)
def sessions() -> None:
    """List the sessions, or show one."""


@app.command(
    "list", epilog="**Example:** backscroll sessions list --chat telegram:-100420 --status summarized"
)
def list_(
    chat: Annotated[
        str | None, typer.Option(help="Of this chat; default: of all.", show_default=False)
    ] = None,
    status: Annotated[
        Status | None, typer.Option(help="In this state; default: in any.", show_default=False)
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="The latest so many.")] = 20,
    as_json: JsonOption = False,
    tenant: TenantOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """List the latest sessions, in their chat's local time."""
    from pipeline.store import chats
    from pipeline.store import sessions as store

    with opened(data_dir, tenant) as (settings, database), database.tenant(settings.tenant) as connection:
        only = find_chat(connection, chat).chat_id if chat is not None else None
        found = store.listing(connection, only, limit=limit, status=status)
        zones = {row.chat_id: row.time_zone for row in chats.overview(connection)}
    if as_json:
        rendering.print_json({"sessions": [dict(row._mapping) for row in found]})
        return
    if not found:
        rendering.out().print(
            "There is no such session (yet): see `backscroll chats` and `backscroll status`."
        )
        return
    headings = ["session", "chat", "began", "lasted", "messages", "status", "about"]
    table = rendering.table(*headings, right=("session", "lasted", "messages"), cut="about")
    for row in found:
        began = rendering.moment(row.started_at, zones[row.chat_id])
        lasted = rendering.age((row.ended_at - row.started_at).total_seconds())
        about = rendering.preview(row.summary_text or ", ".join(row.topic_tags), ABOUT)
        name = row.chat_id + (f" / {row.session_key.strip()}" if row.session_key else "")
        rendering.row(table, str(row.id), name, began, lasted, row.message_count, row.status, about)
    rendering.out().print(table)


@app.command(
    epilog="**Examples:** backscroll sessions show 12 · backscroll sessions show 12 --no-messages --json"
)
def show(
    session: Annotated[int, typer.Argument(metavar="ID", help="As `sessions list` shows it.")],
    with_messages: Annotated[
        bool, typer.Option("--messages/--no-messages", help="With the transcript.")
    ] = True,
    as_json: JsonOption = False,
    tenant: TenantOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """Show a session: what it was about, what was decided and left open, who took part, and the transcript.

    The number of a session that was joined into another shows that other one, and says so.
    """
    from pipeline.store import messages

    with opened(data_dir, tenant) as (settings, database), database.tenant(settings.tenant) as connection:
        found = find_session(connection, session)
        chat = find_chat(connection, found.chat_id)
        transcript: list[Message] = []
        if with_messages:
            where = (found.chat_id, found.session_key, found.started_at, found.ended_at)
            transcript = messages.in_range(connection, *where, limit=TRANSCRIPT)
    if as_json:
        hidden = {"tenant_id", "tsv", "search_text"}
        shown = {name: value for name, value in found._mapping.items() if name not in hidden}
        merged = {"asked_for": session} if found.id != session else {}
        said = {"messages": transcript} if with_messages else {}
        rendering.print_json(shown | merged | said)
        return
    console = rendering.out()
    if found.id != session:
        console.print(f"Session {session} was joined into session {found.id}:", style="yellow")
    _print_session(console, found, chat.title, chat.time_zone)
    if with_messages:
        _print_transcript(console, transcript, found.message_count, chat.time_zone)


def _print_session(console: Console, found: Row[Any], title: str, zone: str) -> None:
    facts = rendering.table("", "")
    facts.show_header = False
    key = f" / {found.session_key.strip()}" if found.session_key else ""
    summarized = f"{found.status}, {found.summary_model}" if found.summary_model else found.status
    began, ended = rendering.moment(found.started_at, zone), rendering.moment(found.ended_at, zone)
    for name, value in {
        "session": f"{found.id} ({summarized})",
        "chat": f"{found.chat_id}{key}" + (f" ({title})" if title else ""),
        "time": f"{began} to {ended}, {zone}",
        "messages": found.message_count,
        "participants": ", ".join(found.participants),
    }.items():
        rendering.row(facts, name, value)
    console.print(facts)
    if found.failure_reason:
        console.print(f"\nNo summary: {rendering.plain(found.failure_reason)}", markup=False, style="yellow")
    if found.summary_text:
        console.print("\nSummary", style="bold")
        console.print(rendering.plain(found.summary_text), markup=False)
    for heading, column in _LISTS.items():
        if items := getattr(found, column):
            console.print(f"\n{heading}", style="bold")
            for item in items:
                console.print(f"- {rendering.plain(str(item))}", markup=False)


def _print_transcript(console: Console, transcript: list[Message], count: int, zone: str) -> None:
    console.print("\nTranscript", style="bold")
    for message in transcript:
        at = rendering.moment(message.sent_at, zone)
        said = rendering.plain(message.content).replace("\n", "\n    ")
        console.print(f"{at} {rendering.plain(message.speaker)}: {said}", markup=False, soft_wrap=True)
    if not transcript:
        console.print("Its messages have been pruned.")
    elif len(transcript) < count:
        console.print(f"… and {count - len(transcript):,} more", style="dim")
