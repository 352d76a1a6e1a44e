"""List the sessions, or show one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.console import Console
from rich.table import Table

from ops.console import rendering
from ops.console.command import Call, ChatArgument, InChatOption, ListByDefault, command
from schemas.listing import MAX_PERIODS, TopicFilter
from schemas.payloads import parse_payload
from schemas.sessions import EXTRACTIVE, Message

if TYPE_CHECKING:
    from sqlalchemy import Row


app = typer.Typer(help=__doc__, cls=ListByDefault, rich_markup_mode="markdown")
topics_app = typer.Typer(rich_markup_mode="markdown")

Status = Literal["open", "closed", "summarized", "skipped", "failed"]
MAX_TRANSCRIPT = 2000
ABOUT_CHARS = 200
_LISTS = {
    "Topics": "topic_tags",
    "Decisions": "decisions",
    "Open questions": "open_questions",
    "Action items": "action_items",
    "Names": "entities",
}


@command(app, "backscroll sessions list --chat telegram:-100420 --status summarized", name="list")
def list_(
    call: Call,
    chat: InChatOption = None,
    status: Annotated[Status | None, "Only this status (default: any)."] = None,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="Sessions at most, the latest.")] = 20,
) -> None:
    """List the latest sessions, in their chat's local time."""
    from pipeline.operations import lookup
    from pipeline.store.chats import chats
    from pipeline.store.sessions import session_rows as store

    with call.transaction() as (_, connection):
        only = lookup.find_chat(connection, chat).chat_id if chat is not None else None
        rows = store.listing(connection, only, limit=limit, status=status)
        zones = {row.chat_id: row.time_zone for row in chats.overview(connection)}
    nothing = "There is no such session (yet): see `backscroll chats` and `backscroll status`."
    answered = {"sessions": [dict(row._mapping) for row in rows]}
    call.answer(answered, table_of(rows, zones) if rows else nothing)


def table_of(rows: Sequence[Row[Any]], zones: Mapping[str, str]) -> Table:
    """Make a table of sessions, in the time zone of their chat."""
    cells = [
        (
            str(row.id),
            row.chat_id + (f" / {row.session_key.strip()}" if row.session_key else ""),
            rendering.moment(row.started_at, zones[row.chat_id]),
            rendering.age((row.ended_at - row.started_at).total_seconds()),
            row.message_count,
            row.status,
            rendering.preview(_about(row), ABOUT_CHARS),
        )
        for row in rows
    ]
    headings = ("session", "chat", "began", "lasted", "messages", "status", "about")
    return rendering.rows(headings, cells, right=("session", "lasted", "messages"), cut="about")


def _about(row: Row[Any]) -> str:
    """Return what a session was about: its topics, where its summary only quotes."""
    topics = ", ".join(row.topic_tags)
    return (topics if row.summary_model == EXTRACTIVE else "") or row.summary_text or topics


@command(app, "backscroll sessions show 12")
def show(
    call: Call,
    session: Annotated[int, typer.Argument(metavar="ID", help="The session's number.")],
    with_messages: Annotated[
        bool, typer.Option("--messages/--no-messages", help="With the transcript.")
    ] = True,
) -> None:
    """Show a session: its summary, decisions and open questions, participants, and the transcript.

    The number of a session that was joined into another shows the other one, and says so.
    """
    from pipeline.operations import lookup
    from pipeline.store.messages import message_rows

    with call.transaction() as (_, connection):
        stored = lookup.find_session(connection, session)
        chat = lookup.find_chat(connection, stored.chat_id)
        transcript: list[Message] = []
        if with_messages:
            where = (stored.chat_id, stored.session_key, stored.started_at, stored.ended_at)
            transcript = message_rows.in_range(connection, *where, limit=MAX_TRANSCRIPT)
    if call.as_json:
        hidden = {"tenant_id", "tsv", "search_text"}
        shown = {name: value for name, value in stored._mapping.items() if name not in hidden}
        merged = {"asked_for": session} if stored.id != session else {}
        rendering.print_json(shown | merged | ({"messages": transcript} if with_messages else {}))
        return
    console = rendering.out()
    if stored.id != session:
        console.print(f"Session {session} was joined into session {stored.id}:", style="yellow")
    _print_session(console, stored, chat.title, chat.time_zone)
    if with_messages:
        _print_transcript(console, transcript, stored.message_count, chat.time_zone)


def _print_session(console: Console, session: Row[Any], title: str, zone: str) -> None:
    key = f" / {session.session_key.strip()}" if session.session_key else ""
    summarized = f"{session.status}, {session.summary_model}" if session.summary_model else session.status
    began, ended = rendering.moment(session.started_at, zone), rendering.moment(session.ended_at, zone)
    console.print(
        rendering.facts(
            {
                "session": f"{session.id} ({summarized})",
                "chat": f"{session.chat_id}{key}" + (f" ({title})" if title else ""),
                "time": f"{began} to {ended}, {zone}",
                "messages": session.message_count,
                "participants": ", ".join(session.participants),
            }
        )
    )
    if session.failure_reason:
        what = "Extracted, as the language model gave no summary" if session.summary_text else "No summary"
        console.print(f"\n{what}: {rendering.plain(session.failure_reason)}", markup=False, style="yellow")
    if session.summary_text:
        console.print("\nSummary", style="bold")
        console.print(rendering.plain(session.summary_text), markup=False)
    for heading, column in _LISTS.items():
        if items := getattr(session, column):
            console.print(f"\n{heading}", style="bold")
            for item in items:
                console.print(f"- {rendering.plain(str(item))}", markup=False)


def _print_transcript(console: Console, transcript: list[Message], count: int, zone: str) -> None:
    console.print("\nTranscript", style="bold")
    for message in transcript:
        at = rendering.moment(message.sent_at, zone)
        text = rendering.plain(message.content).replace("\n", "\n    ")
        console.print(f"{at} {rendering.plain(message.speaker)}: {text}", markup=False, soft_wrap=True)
    if not transcript:
        console.print("Its messages have been pruned.")
    elif len(transcript) < count:
        console.print(f"… and {count - len(transcript):,} more", style="dim")


@command(topics_app, "backscroll topics telegram:-100420 --by week")
def topics(
    call: Call,
    chat: ChatArgument,
    by: Annotated[Literal["week", "month"], "By week or by month."] = "month",
    periods: Annotated[int, typer.Option(min=1, max=MAX_PERIODS, help="Periods at most, the latest.")] = 12,
    limit: Annotated[
        int, typer.Option(min=1, max=100, help="Topics of a period at most, the most frequent.")
    ] = 10,
) -> None:
    """List the topics of a chat's summaries by week or month, with the number of sessions about each.

    The HTTP API answers the same to `GET /v1/chats/{chat_id}/topics`.
    """
    from pipeline.operations import lookup as pipeline_topics

    wanted = parse_payload(TopicFilter, {"by": by, "periods": periods, "limit": limit})
    with call.opened() as (settings, database):
        result = pipeline_topics.chat_topics(database, settings.tenant, chat, wanted)
    cells = [
        (
            period.begins.isoformat(),
            topic.topic,
            topic.sessions,
            rendering.moment(topic.first_at, result.time_zone),
            rendering.moment(topic.last_at, result.time_zone),
        )
        for period in result.periods
        for topic in period.topics
    ]
    table = rendering.rows((f"{by} of", "topic", "sessions", "first", "last"), cells, right=("sessions",))
    nothing = "None of its sessions is summarized yet: see `backscroll sessions` and `backscroll status`."
    call.answer(result, table if cells else nothing)
