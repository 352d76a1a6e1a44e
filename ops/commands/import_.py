"""`backscroll import`: the history in the export files of chat platforms."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from ops import connection
from ops.console import import_report, rendering, waiting
from ops.console.command import Call, command
from ops.console.waiting import await_memory
from ops.exit_codes import INTERRUPTED, NOT_AS_IT_SHOULD_BE
from ops.exports import SeveralExports
from ops.source import ExportSource, open_source
from pipeline.platforms.formats import Format
from pipeline.platforms.records import DateOrder, ImportOptions
from schemas.errors import BackscrollError, InvalidInput
from schemas.messages import ChatKind
from schemas.settings import Settings

if TYPE_CHECKING:
    from pipeline.ingest.history import Stored, Tally
    from pipeline.store.connections.database import Database


app = typer.Typer(rich_markup_mode="markdown")


@command(app, "backscroll import 'WhatsApp Chat with Harbour House.zip' --tz Europe/Lisbon")
def import_(
    call: Call,
    ctx: typer.Context,
    path: Annotated[Path, typer.Argument(metavar="FILE|FOLDER|ZIP", help="Export to import.")],
    format: Annotated[  # noqa: A002 - the option's name
        Format | None, "Format (default: detected)."
    ] = None,
    chat: Annotated[str | None, "The chat's id, if the file does not hold it."] = None,
    title: Annotated[str | None, "The chat's title."] = None,
    tz: Annotated[str | None, "Zone of times without one, as in Europe/Lisbon (default: the chat's)."] = None,
    date_order: Annotated[
        DateOrder | None, "Order of WhatsApp's or LINE's dates (default: detected)."
    ] = None,
    kind: Annotated[ChatKind | None, "Kind of the chats (default: from the file)."] = None,
    language: Annotated[
        str | None, "Language of the chats, as in german or german+english (default: detected)."
    ] = None,
    strict: Annotated[bool, "Write nothing if a line is broken or not read (reads the file twice)."] = False,
    wait: Annotated[bool, "Wait until everything is summarized and embedded."] = False,
) -> None:
    """Import a history of a chat platform or an assistant, or our JSON Lines.

    - WhatsApp: *Export chat*, the `.zip` or `.txt` as it is; give its time zone with `--tz`
    - Telegram Desktop: *Export chat history* as JSON, the `result.json` or its folder
    - Slack: the export of a workspace or Enterprise Grid, as zip or folder
    - Discord: DiscordChatExporter's JSON
    - Messenger, Instagram: Meta's *Download your information* as JSON, as zip or folder, or a JSON of an encrypted chat
    - Signal: its own export of chats (`main.jsonl`), or the folder that signal-export writes
    - LINE, KakaoTalk: the text or CSV that the app saves; give its time zone with `--tz`
    - Element: *Export chat* as JSON; Google Chat: Takeout's zip or folder
    - Mattermost: the bulk export (`.jsonl`); Rocket.Chat: messages as JSON
    - ChatGPT, Claude: *Export data*, the zip or `conversations.json`
    - JSON Lines: a message on each line, fields as in `POST /v1/messages`; or what `backscroll export` wrote

    Run it again at any time, also with a longer export of the same chat: nothing is stored twice, and messages are
    moved if `--tz` or `--date-order` says that their times were read wrongly. Dates that can be read in two ways need
    an option (exit code 2), and so does a folder of several exports. A broken line is named, counted and skipped. What
    was accepted stays after Ctrl-C. It ends with 5 if the file is cut off or holds what was not read, and with `--wait`
    if a job of it is dead.
    """
    options = ImportOptions(
        chat_id=chat, title=title, time_zone=tz, date_order=date_order, kind=kind, language=language
    )
    console = rendering.err()
    report = import_report.ImportReport(console, ctx)
    shown = console.is_terminal and not call.as_json
    try:
        opened_source = open_source(path, options, format=format)
    except SeveralExports as error:
        raise InvalidInput(f"{error}:\n{import_report.commands(ctx, error.exports)}", field="file") from error
    with opened_source as source, call.opened() as (settings, database):
        source.options = replace(
            source.options, stored_zone=lambda chat_id: _stored_zone(database, settings.tenant, chat_id)
        )
        if source.others:
            report.notice(
                f"{path} also holds exports that are not imported now:\n{import_report.commands(ctx, source.others)}"
            )
        if strict:
            _check(source, report, shown)
        tally, taken = _import(source, settings, database, report, shown)
        if not (tally.chats or taken):
            raise InvalidInput(
                f"{source.name} holds no messages ({import_report.counted(tally)}); is --format {source.format} right?",
                field="file",
            )
        from pipeline.ingest.history import stored_chats
        from pipeline.operations import lookup

        now = stored_chats(database, settings.tenant, tally)
        report.notice_languages(now)
        if not call.as_json:
            import_report.print_summary(tally, now, report)
            for of, counts in taken.items():
                print(f"{of}: {counts['new']:,} new of {counts['rows']:,}, {counts['left_out']:,} left out")
        # a chat that is known and not stored was forgotten
        gone = [chat_id for chat_id in tally.chats if chat_id not in now]
        forgotten = [chat_id for chat_id in gone if lookup.seen_chat(database, settings.tenant, chat_id)]
        report.notice_forgotten(forgotten)
        memory = None
        if wait:
            try:
                memory = await_memory(database, settings.tenant, list(tally.chats), console, shown=shown)
            except KeyboardInterrupt:
                report.say("The import is done, and the workers continue: see `backscroll status --watch`.")
                raise typer.Exit(INTERRUPTED) from None
    if call.as_json:
        rendering.print_json(import_report.as_json(source, tally, now, report, memory) | {"taken": taken})
    elif now:
        print(f"\n{import_report.outlook(memory, memory_enabled=settings.session_memory_enabled)}")
    there = tally.new + tally.moved + tally.duplicates
    for where in tally.breaks_off:
        rendering.warn(
            f"{source.name} is not complete ({where}): the {there:,} messages before are stored, and others are "
            "missing. Export it again and import that: nothing is stored twice.",
            style="red",
        )
    for line in import_report.not_read(tally.unread):
        rendering.warn(line, style="red")
    if memory is not None and memory.dead:
        rendering.warn(
            f"{memory.dead} jobs are dead ({memory.error}): see `backscroll jobs list`", style="red"
        )
    if tally.breaks_off or tally.unread or (memory is not None and memory.dead):
        raise typer.Exit(NOT_AS_IT_SHOULD_BE)


def _stored_zone(database: Database, tenant_id: str, chat_id: str) -> str | None:
    from pipeline.store.chats import chats

    with database.tenant(tenant_id) as opened:
        chat = chats.get_current(opened, chat_id)
    return chat.time_zone if chat else None


@contextmanager
def _bar(
    source: ExportSource, label: str, console: Console, *, shown: bool
) -> Iterator[Callable[[int], None]]:
    """Show a bar of the bytes read, with the messages per second; yields what moves it, given the messages so far."""
    columns = (
        *(TextColumn("{task.description}"), BarColumn(), DownloadColumn()),
        *(TextColumn("{task.fields[rate]}"), TimeRemainingColumn()),
    )
    began = time.monotonic()
    with Progress(*columns, console=console, transient=True, disable=not shown) as progress:
        task = progress.add_task(label, total=source.size, rate="")

        def move(messages: int) -> None:
            rate = messages / max(time.monotonic() - began, 1e-9)
            shown_rate = f"{rate:,.0f} messages/s" if messages else ""
            progress.update(task, completed=source.position, rate=shown_rate)

        yield move


def _check(source: ExportSource, report: import_report.ImportReport, shown: bool) -> None:
    """Read everything once. Raises `InvalidInput` if a line is broken."""
    with _bar(source, "checking", report.console, shown=shown) as move:
        for item in source.records():
            report.show(source.name, item)
            move(0)
    if unread := import_report.not_read(report.unread):
        raise InvalidInput(f"{'; '.join(unread)}: so nothing was written (--strict)", field="file")
    if report.broken:
        raise InvalidInput(
            f"{source.name} has broken lines ({report.broken:,}), so nothing was written (--strict); correct them, or "
            "leave --strict out to skip them",
            field="file",
        )


def _import(
    source: ExportSource,
    settings: Settings,
    database: Database,
    report: import_report.ImportReport,
    shown: bool,
) -> tuple[Tally, dict[str, Counter[str]]]:
    """Import the source; return its counts, and those of other rows by what they are."""
    from pipeline.ingest import accept
    from pipeline.ingest.accept import MessageLimits
    from pipeline.ingest.history import Stored, Tally
    from pipeline.ingest.sessionize import SessionPolicy
    from pipeline.operations import transfer

    taken: dict[str, Counter[str]] = {}
    tally, rules, settle = Tally(), SessionPolicy.of(settings), timedelta(seconds=settings.settle_seconds)
    limits = MessageLimits.of(settings)
    events = transfer.take(database, settings.tenant, source.records(), rules, settle=settle, limits=limits)
    try:
        with (
            connection.wake_ups(settings, report.console) as wake_up,
            _bar(source, "importing", report.console, shown=shown) as move,
            waiting.interrupts_deferred() as let_ctrl_c_through,
        ):
            for event in events:
                if isinstance(event, transfer.Taken):
                    counts = {"rows": event.rows, "new": event.new, "left_out": event.left_out}
                    taken.setdefault(event.of, Counter()).update(counts)
                    for kind in sorted(event.follows):
                        wake_up(kind)
                    continue
                report.show(source.name, event)
                tally.add(event)
                move(tally.new + tally.moved + tally.duplicates + tally.kept_out)
                if isinstance(event, Stored) and event.new:
                    _warn_of_times(event, report)
                    wake_up("ingest")
                if isinstance(event, Stored) and event.moved:
                    wake_up("summarize")
                    wake_up("extract")
                let_ctrl_c_through()
    except import_report.TwoReadings:
        raise
    except (KeyboardInterrupt, BackscrollError) as error:
        stored = f"{tally.new:,} new messages are stored and stay" if tally.new else "Nothing new was stored"
        report.say(f"{stored}. To continue, run the same command again: nothing is stored twice.")
        if isinstance(error, KeyboardInterrupt):
            raise typer.Exit(INTERRUPTED) from None
        raise
    finally:
        accept.report_left_out(database, settings.tenant, source.format, tally.left_out, {})
    return tally, taken


def _warn_of_times(event: Stored, report: import_report.ImportReport) -> None:
    if event.ahead:
        report.notice(
            f"{event.chat.chat_id} has messages of the future, which count as sent now: is the zone right? "
            "Import again with the --tz of the phone or the exporting computer: that corrects their times."
        )
    if event.overlapping:
        report.notice(
            f"{event.chat.chat_id} already holds messages of the same time from another source, such as "
            "live from a bot: their ids and those of this import never match, so some messages may now "
            "be stored twice. Import only what is older than the first live message."
        )
